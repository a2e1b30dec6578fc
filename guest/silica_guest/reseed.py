"""Makes siblings of one zygote differ where they must: randomness and identity.

Owns what runs in a child between entering the jail and the first cell, so it
looks only at modules that are already loaded. The hash seed and the address
layout cannot be changed after start; the host limits forks per zygote instead.
"""

from __future__ import annotations

import os
import sys

SEED_BYTES = 32
# numpy's `mt19937_state`: 624 words of key, then the position as an int.
KEY_WORDS = 624
KEY_BYTES = 4 * KEY_WORDS

_fill_numpy = None


def prepare() -> None:
    """Finds numpy's global state before the fork, so that a child can fill it without running numpy.

    `numpy.random.seed` touches over a hundred pages, most of the time a child needs to start.
    """
    global _fill_numpy
    _fill_numpy = None
    if "numpy.random" not in sys.modules:
        return
    import ctypes

    sys.modules["numpy.random"].seed()  # This also forgets a half-used pair of normal numbers.
    generator = sys.modules["numpy.random"].mtrand._rand._bit_generator
    address, state = generator.ctypes.state_address, generator.state["state"]
    expected = state["key"].tobytes() + int(state["pos"]).to_bytes(4, sys.byteorder)
    # Another layout in some numpy to come is seen here, and `seed` does the work.
    if ctypes.string_at(address, KEY_BYTES + 4) == expected:
        position = KEY_WORDS.to_bytes(4, sys.byteorder)
        target, fill = ctypes.c_void_p(address), ctypes.memmove
        _fill_numpy = lambda: fill(target, os.urandom(KEY_BYTES) + position, KEY_BYTES + 4)  # noqa: E731


def reseed() -> None:
    """Gives this process its own randomness and thread id."""
    loaded = sys.modules
    if "random" in loaded:
        # CPython does it on a fork with hooks; see gateway.
        loaded["random"].seed()
    if "threading" in loaded:
        loaded["threading"].main_thread()._set_native_id()
    if _fill_numpy is not None:
        _fill_numpy()
    elif "numpy.random" in loaded:
        seed = loaded["numpy"].frombuffer(os.urandom(SEED_BYTES), dtype="uint32")
        loaded["numpy.random"].seed(seed)
    if "uuid" in loaded:
        _reseed_uuid(loaded["uuid"])
    if "tempfile" in loaded:
        loaded["tempfile"]._name_sequence = None
    if "multiprocessing.process" in loaded:
        # Made once on import; it guards the sockets of managers and pools.
        loaded["multiprocessing.process"].current_process().authkey = os.urandom(SEED_BYTES)


def _reseed_uuid(uuid) -> None:
    # The multicast bit marks a random node (RFC 4122 section 4.5). libuuid would
    # use the host's address and a clock shared by all siblings.
    uuid._node = int.from_bytes(os.urandom(6), "big") | (1 << 40)
    uuid._last_timestamp = None
    uuid._generate_time_safe = None


def generators_before_fork() -> list[str]:
    """Returns the random generators alive now that no reseeding reaches; for tests, before gc.freeze()."""
    import gc
    import random

    numpy_random = sys.modules.get("numpy.random")
    kinds: tuple[type, ...] = (random.Random,)
    allowed = [getattr(random, "_inst", None)]
    if numpy_random is not None:
        kinds += (numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)
        state = numpy_random.mtrand._rand
        allowed += [state, state._bit_generator]
    found = []
    for thing in gc.get_objects():
        # type() is asked, not the object: proxies may do anything on isinstance.
        if not issubclass(type(thing), kinds) or isinstance(thing, random.SystemRandom):
            continue
        if not any(thing is one for one in allowed):
            found.append(f"{type(thing).__module__}.{type(thing).__qualname__}")
    return found
