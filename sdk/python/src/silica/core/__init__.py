"""The part of the client that does no I/O.

It builds requests, parses answers, and describes operations of more than one request once, as flows
(see `flow`). `silica.client` and `silica.aio.client` run the flows.
"""
