"""The Python side of a Silica kernel: runs cells and reports over one socket.

It lives inside the fence, so nothing here is a security control. Importing
this package imports nothing else; the entries are `fresh.py` and `zygote.py`.
"""
