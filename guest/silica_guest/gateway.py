"""Calls the native library that moves a forked child into its jail.

Owns nothing but the ABI. The library stands beside this file as `gate.so`; this
file has another stem because Python would take `gate.so` for the module `gate`.
"""

from __future__ import annotations

import ctypes
import os

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gate.so")


class ArenaAllocator(ctypes.Structure):
    """CPython's `PyObjectArenaAllocator`."""

    _fields_ = (("ctx", ctypes.c_void_p), ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p))


def keep_objects_together(path: str = LIBRARY) -> bool:
    """Has CPython keep the objects it makes from now on in one stretch of memory; False if there is none.

    What it holds already stays where it is, and is given back to the kernel if it is ever freed.
    """
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return False  # Whoever needs it for more than speed finds out next.
    if library.silica_arena_reserve() < 0:
        return False
    address = lambda function: ctypes.cast(function, ctypes.c_void_p)  # noqa: E731
    allocator = ArenaAllocator(None, address(library.silica_arena_alloc), address(library.silica_arena_free))
    ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(allocator))
    return True


class Gate:
    """The native calls with the entry buffer they share.

    Everything is looked up here once, so that a child touches no more memory
    than it must between fork and `enter`.
    """

    def __init__(self, sock: int, path: str = LIBRARY) -> None:
        library = ctypes.CDLL(path)
        size = library.silica_gate_entry_size()
        if size <= 0:
            raise OSError(f"the gate gives an entry size of {size}")
        self._sock = ctypes.c_int(sock)
        self._buffer = ctypes.create_string_buffer(size)
        self._entry = ctypes.c_void_p(ctypes.addressof(self._buffer))
        self._lock = library.silica_zygote_lock
        self._wait = library.silica_zygote_wait
        self._forked = library.silica_zygote_forked
        self._enter = library.silica_enter

    def lock(self) -> int:
        """Locks the zygote itself down; negative is failure."""
        return self._lock(self._sock)

    def wait(self) -> int:
        """Blocks; 1 is a request for a child, 0 the order to leave."""
        return self._wait(self._sock, self._entry)

    def forked(self, pid: int) -> int:
        """Tells the master of the child; a negative pid is a failed fork."""
        return self._forked(self._sock, self._entry, ctypes.c_int(pid))

    def enter(self) -> int:
        """In the child: goes into the jail for good; negative is failure."""
        return self._enter(self._entry)
