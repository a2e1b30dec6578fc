"""Calls the native library that moves a forked child into its jail, and that writes images of a kernel.

Owns only the ABI. The library is `gate.so` in this folder. This file has another
stem because Python would import `gate.so` as the module `gate`.
"""

from __future__ import annotations

import ctypes
import errno
import os

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gate.so")


class ArenaAllocator(ctypes.Structure):
    """CPython's `PyObjectArenaAllocator`."""

    _fields_ = (("ctx", ctypes.c_void_p), ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p))


def keep_objects_together(path: str = LIBRARY) -> bool:
    """Makes CPython allocate its object arenas in one reserved range; returns False if that fails.

    Existing arenas stay in place, and go back to the kernel when they are freed.
    """
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return False  # `Gate`, which cannot do without the library, raises the error.
    if library.silica_arena_reserve() < 0:
        return False
    address = lambda function: ctypes.cast(function, ctypes.c_void_p)  # noqa: E731
    allocator = ArenaAllocator(None, address(library.silica_arena_alloc), address(library.silica_arena_free))
    ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(allocator))
    return True


class Span(ctypes.Structure):
    """The gate's `Span`."""

    _fields_ = (("address", ctypes.c_size_t), ("size", ctypes.c_size_t))


class Carrier(ctypes.Structure):
    """The gate's `Carrier`: what it must know of the C library."""

    _fields_ = (
        ("sequences_offset", ctypes.c_int64),
        ("has_sequences", ctypes.c_uint64),
        ("heap_end_address", ctypes.c_uint64),
    )


def describe_libc(libc: ctypes.PyDLL) -> Carrier:
    """Returns where the C library keeps its area of restartable sequences and its end of the heap."""
    try:
        size = ctypes.c_uint.in_dll(libc, "__rseq_size").value  # glibc 2.35
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    except ValueError:
        size = offset = 0
    try:
        heap_end = ctypes.addressof(ctypes.c_void_p.in_dll(libc, "__curbrk"))
    except ValueError:
        heap_end = 0
    return Carrier(offset, int(size > 0), heap_end)


def write_image(image: int, any_zygote: bool, path: str = LIBRARY) -> int:
    """Writes this process, which must have one thread, into a file.

    Returns 0 when it is written and a negative error number on failure; returns a positive number in
    the process that has become the image.
    """
    libc = ctypes.PyDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return -errno.ENOSYS  # What the gate knows of thread blocks is glibc's.
    write = ctypes.PyDLL(path).silica_image_write
    write.restype = ctypes.c_int64
    return write(ctypes.c_int(image), ctypes.c_uint(any_zygote), ctypes.byref(describe_libc(libc)))


class Gate:
    """The native functions, looked up before the fork so that children copy no pages for it."""

    def __init__(self, sock: int, path: str = LIBRARY) -> None:
        # A PyDLL keeps the global interpreter lock during a call. No other thread waits for it,
        # and releasing it would write to shared pages.
        library, libc = ctypes.PyDLL(path), ctypes.PyDLL(None)
        self._sock = ctypes.c_int(sock)
        self._fork = bare_fork(libc)
        self._each_library = libc.dl_iterate_phdr
        self._lock = library.silica_zygote_lock
        self._gather = library.silica_gather_libraries
        self._serve = library.silica_zygote_serve
        self._spans, self._span_count = None, ctypes.c_size_t(0)
        self._carrier = ctypes.pointer(describe_libc(libc))

    def reseed(self, spans: list[tuple[int, int]]) -> None:
        """Makes `serve` fill these spans, as address and size, with random bytes in every child."""
        self._spans, self._span_count = (Span * len(spans))(*spans), ctypes.c_size_t(len(spans))

    def lock(self) -> int:
        """Restricts the zygote process itself; returns a negative number on failure."""
        return self._lock(self._sock)

    def gather_libraries(self) -> int:
        """Makes libraries cheap to fork; returns a negative number, which is harmless, if the kernel cannot."""
        return self._gather(self._each_library)

    def serve(self) -> int:
        """Forks on each request of the zone master.

        Returns 1 in each child, once it is in its jail; in the zygote 0 at the end of requests, and a
        negative number on failure.
        """
        return self._serve(self._sock, self._fork, self._spans, self._span_count, self._carrier)


def bare_fork(libc: ctypes.PyDLL):
    """Returns a fork that runs none of Python's hooks, and none of libc's where `_Fork` exists.

    In a process with one thread no other thread can hold a lock, so the hooks have nothing to
    repair; what they would reseed, `reseed` does. They would write to 260 pages, a quarter of
    those that a child copies before its first cell.
    """
    try:
        return libc._Fork  # glibc 2.34
    except AttributeError:
        return libc.fork
