"""What the client knows without touching a socket.

Here requests are built, answers read, and everything that takes more than one request is written
down once, as a flow (see `flow`). `silica.client` and `silica.aio.client` carry flows out.
"""
