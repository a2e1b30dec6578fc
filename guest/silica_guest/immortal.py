"""Makes what a zygote holds immortal, so that children use it without writing to it.

CPython counts the references to every object in the object itself: to use one is to write to its page, and in a
child of a fork that is a page to copy. Since 3.12 there are objects that are not counted because they live for ever
(PEP 683): `None`, small numbers, the types that CPython brings along. What a zygote holds lives as long as its children
anyway, so all of it becomes such an object. Older interpreters go on counting.
"""

from __future__ import annotations

import gc
import os
import sys
from array import array
from collections.abc import Callable
from types import CodeType

SINCE = (3, 12)
# The count is the object's first word; of it, CPython itself compares these bytes.
COUNT_BYTES = 4
# With the highest bit set, the count is one that is not kept.
IMMORTAL_LEAST = 1 << 31
READ_BYTES = 1 << 16


def make_immortal() -> int:
    """Makes every object immortal that can be found; returns how many there are, 0 where that is not possible.

    A child of the process looks for them, since all that a search makes and throws away would leave gaps here.
    """
    count = count_of_none()
    if count is None:
        return 0
    import ctypes

    from silica_guest.gateway import bare_fork

    addresses = ask_child(gc.get_objects(), bare_fork(ctypes.PyDLL(None)))
    write, word = ctypes.memmove, count.to_bytes(COUNT_BYTES, sys.byteorder)
    for address in addresses:
        write(address, word, COUNT_BYTES)
    return len(addresses)


def count_of_none() -> int | None:
    """Returns what stands in an immortal object where others are counted, if this interpreter has such objects.

    `None` is asked, since the number differs from version to version. Without the global lock objects are counted
    elsewhere.
    """
    if sys.version_info < SINCE or sys.maxsize < 1 << 32 or "t" in sys.abiflags:
        return None
    import ctypes

    count = int.from_bytes(ctypes.string_at(id(None), COUNT_BYTES), sys.byteorder)
    return count if count >= IMMORTAL_LEAST else None


def ask_child(objects: list, fork: Callable[[], int]) -> array:
    """Returns the addresses of objects and of all that they hold, which are the same in a child.

    The fork must run no hooks: they make objects in the child that the parent does not have. None are returned if
    the child fails.
    """
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        tell_parent(objects, writer)
    os.close(writer)
    if child < 0:
        os.close(reader)
        return array("Q")
    told = bytearray()
    while chunk := os.read(reader, READ_BYTES):
        told += chunk
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return array("Q", bytes(told) if status == 0 else b"")


def tell_parent(objects: list, writer: int) -> None:
    """Writes the addresses of these objects and of all that they hold, and ends this process."""
    status = 1
    try:
        told = memoryview(array("Q", reachable(objects)).tobytes())
        while told:
            told = told[os.write(writer, told) :]
        status = 0
    finally:
        os._exit(status)


def reachable(objects: list) -> set[int]:
    """Returns the addresses of these objects and of all that they hold."""
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
    """Returns what an object holds. The collector knows, but for code, which is out of its reach.

    Nothing that is made for whoever asks may be among it, as are some of the tuples that code shows: a parent does
    not have it.
    """
    if type(thing) is not CodeType:
        return gc.get_referents(thing)
    return [
        thing.co_consts, thing.co_names, thing.co_filename, thing.co_name, thing.co_qualname,
        thing.co_linetable, thing.co_exceptiontable, *thing.co_varnames, *thing.co_freevars, *thing.co_cellvars,
    ]  # fmt: skip
