"""Makes the objects of a zygote immortal, so that children use them without writing to them.

CPython counts the references to an object in the object itself: using an object writes to its page, and a forked
child has to copy that page. Since 3.12 some objects are immortal and not counted (PEP 683): `None`, small integers,
the built-in types. The objects of a zygote live as long as its children anyway, so this module makes all of them
immortal. On older interpreters it does nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from array import array
from collections.abc import Callable
from types import CodeType

SINCE = (3, 12)
# The reference count is the first word of an object; CPython compares this many bytes of it.
COUNT_BYTES = 4
# A count with the highest bit set marks an immortal object.
IMMORTAL_LEAST = 1 << 31
READ_BYTES = 1 << 16


def make_immortal() -> int:
    """Makes every reachable object immortal; returns their number, 0 if the interpreter has no such objects.

    A forked child searches for them, since the temporary objects of a search would leave gaps in this heap.
    """
    count = count_of_none()
    if count is None:
        return 0
    import ctypes

    from silica_guest.gateway import bare_fork

    addresses = find_in_child(gc.get_objects(), bare_fork(ctypes.PyDLL(None)))
    write, word = ctypes.memmove, count.to_bytes(COUNT_BYTES, sys.byteorder)
    for address in addresses:
        write(address, word, COUNT_BYTES)
    return len(addresses)


def count_of_none() -> int | None:
    """Returns the reference count that marks an immortal object; None if this interpreter has none.

    It is read from `None`, since it differs between versions. Free-threaded builds keep counts elsewhere
    and are not supported.
    """
    if sys.version_info < SINCE or sys.maxsize < 1 << 32 or "t" in sys.abiflags:
        return None
    import ctypes

    count = int.from_bytes(ctypes.string_at(id(None), COUNT_BYTES), sys.byteorder)
    return count if count >= IMMORTAL_LEAST else None


def find_in_child(objects: list, fork: Callable[[], int]) -> array:
    """Returns the addresses of `objects` and of all they refer to; none if the child fails.

    A forked child collects them: its objects have the same addresses. The fork must run no hooks, which would
    make objects in the child that the parent does not have.
    """
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        write_addresses(objects, writer)
    os.close(writer)
    if child < 0:
        os.close(reader)
        return array("Q")
    received = bytearray()
    while chunk := os.read(reader, READ_BYTES):
        received += chunk
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return array("Q", bytes(received) if status == 0 else b"")


def write_addresses(objects: list, writer: int) -> None:
    """Writes the addresses of `objects` and of all they refer to, and ends this process."""
    status = 1
    try:
        unsent = memoryview(array("Q", reachable(objects)).tobytes())
        while unsent:
            unsent = unsent[os.write(writer, unsent) :]
        status = 0
    finally:
        os._exit(status)


def reachable(objects: list) -> set[int]:
    """Returns the addresses of `objects` and of all they refer to."""
    found: set[int] = set()
    while objects:
        further: list = []
        for thing in objects:
            if id(thing) not in found:
                found.add(id(thing))
                further += parts(thing)
        objects = further
    return found


def parts(thing: object) -> list:
    """Returns the objects that `thing` refers to, by the garbage collector except for code, which it does not track.

    Only objects that exist in the parent may be returned. Some attributes of code build a new tuple on each
    access; of these only the elements are returned.
    """
    if type(thing) is not CodeType:
        return gc.get_referents(thing)
    return [
        thing.co_consts, thing.co_names, thing.co_filename, thing.co_name, thing.co_qualname,
        thing.co_linetable, thing.co_exceptiontable, *thing.co_varnames, *thing.co_freevars, *thing.co_cellvars,
    ]  # fmt: skip
