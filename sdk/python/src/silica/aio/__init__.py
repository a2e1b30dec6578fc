"""The asyncio counterparts of the blocking classes, exported by `silica` as `AsyncSandbox` etc.

This package holds only the code that awaits. `silica.core` builds the requests and parses the
answers for both.
"""
