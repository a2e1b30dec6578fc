"""The Python side of a Silica kernel: runs cells and reports over one socket.

It runs inside the sandbox, so nothing here is a security control. Importing
this package imports nothing else; the entry points are `fresh.py` and
`zygote.py`.
"""
