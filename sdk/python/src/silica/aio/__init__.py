"""The same as the blocking classes, for asyncio; `silica` exports it as `AsyncSandbox` and so on.

Only what awaits is here. What is asked and what is made of it is in `silica.core`, for both.
"""
