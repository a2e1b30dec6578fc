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


class Span(ctypes.Structure):
    """The gate's `Span`."""

    _fields_ = (("address", ctypes.c_size_t), ("size", ctypes.c_size_t))


class Gate:
    """The native calls, looked up before there is anything to share with children."""

    def __init__(self, sock: int, path: str = LIBRARY) -> None:
        # A PyDLL keeps the interpreter's lock over a call: nobody else wants it, and giving it
        # back would write to pages.
        library, libc = ctypes.PyDLL(path), ctypes.PyDLL(None)
        self._sock = ctypes.c_int(sock)
        self._fork = bare_fork(libc)
        self._each_library = libc.dl_iterate_phdr
        self._lock = library.silica_zygote_lock
        self._gather = library.silica_gather_libraries
        self._serve = library.silica_zygote_serve
        self._spans, self._span_count = None, ctypes.c_size_t(0)

    def reseed(self, spans: list[tuple[int, int]]) -> None:
        """Has every child's copy of these stretches of memory, address and size, filled with random bytes."""
        self._spans, self._span_count = (Span * len(spans))(*spans), ctypes.c_size_t(len(spans))

    def lock(self) -> int:
        """Locks the zygote itself down; negative is failure."""
        return self._lock(self._sock)

    def gather_libraries(self) -> int:
        """Makes libraries cheap to fork; negative where the kernel has no part in it, which is no failure."""
        return self._gather(self._each_library)

    def serve(self) -> int:
        """Forks on request. Returns 1 in each child, in its jail for good; in the zygote 0 or less, at the end."""
        return self._serve(self._sock, self._fork, self._spans, self._span_count)


def bare_fork(libc: ctypes.PyDLL):
    """Returns a fork that runs none of Python's hooks, and none of the libraries' where there is one.

    A process with one thread has no lock that another thread could hold, so the hooks have
    nothing to put right here; what they would reseed, `reseed` does. They touch 260 pages, a
    quarter of what a child copies before its first cell.
    """
    try:
        return libc._Fork  # glibc 2.34
    except AttributeError:
        return libc.fork
