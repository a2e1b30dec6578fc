"""Gives every child of a zygote its own randomness and identity.

Owns the preparation in the zygote, before the fork, the steps left to a child between entering the jail and its
first cell, and the renewal of a process that has become an image. It handles only modules that are already loaded. The hash seed and the address layout cannot be
changed after startup; the host limits the number of forks per zygote instead.
"""

from __future__ import annotations

import _thread
import os
import sys

KEY_BYTES = 32
SSL_SEED_BYTES = 48

# Reseeding calls that a child makes itself, for secrets that were not found in memory.
_by_hand: list[object] = []
_main_thread = None


def prepare() -> list[tuple[int, int]]:
    """Prepares this process for forks; returns the spans, as address and size, to fill with random bytes in each child.

    A child that called `random.seed` and its like instead would write to a hundred pages, a fifth of those that it
    copies before its first cell.
    """
    global _main_thread
    loaded = sys.modules
    _by_hand.clear()
    if "threading" in loaded:
        _main_thread = loaded["threading"].main_thread()
    if "uuid" in loaded:
        _prepare_uuid(loaded["uuid"])
    if "tempfile" in loaded:
        loaded["tempfile"]._name_sequence = None
    spans = []
    for name, find, again in SECRETS:
        if name not in loaded:
            continue
        again(loaded[name])
        span = find(loaded[name])
        if span is None:
            _by_hand.append(lambda again=again, module=loaded[name]: again(module))
        else:
            spans.append(span)
    return spans


def reseed() -> None:
    """Runs the steps that are left to a child."""
    if _main_thread is not None:
        _main_thread._native_id = _thread.get_native_id()
    for again in _by_hand:
        again()


def renew() -> None:
    """Gives a process that was copied with all its memory its own randomness and identity."""
    loaded = sys.modules
    for name, _, again in SECRETS:
        if name in loaded:
            again(loaded[name])
    if "uuid" in loaded:
        loaded["uuid"]._node = loaded["uuid"]._last_timestamp = None
    if "tempfile" in loaded:
        loaded["tempfile"]._name_sequence = None
    if "_ssl" in loaded:
        # OpenSSL notices a fork by the process id, which may be equal in two sandboxes.
        loaded["_ssl"].RAND_add(os.urandom(SSL_SEED_BYTES), float(SSL_SEED_BYTES))


def _find(address: int, before: bytes, secret: bytes, after: bytes = b"") -> tuple[int, int] | None:
    """Returns address and size of `secret`; None if memory at `address` is not `before`, `secret`, `after`."""
    import ctypes

    expected = before + secret + after
    found = ctypes.string_at(address, len(expected)) == expected
    return (address + len(before), len(secret)) if found else None


def _find_random(random) -> tuple[int, int] | None:
    # `RandomObject` in C: the object header, the position as an int, the words of a Mersenne Twister.
    _, (*words, position), _ = random.getstate()
    secret = b"".join([_c_int(word) for word in words])
    return _find(id(random._inst) + object.__basicsize__, _c_int(position), secret)


def _find_numpy(numpy_random) -> tuple[int, int] | None:
    # `mt19937_state` in C: the words, then the position as an int.
    generator = numpy_random.mtrand._rand._bit_generator
    state = generator.state["state"]
    return _find(generator.ctypes.state_address, b"", state["key"].tobytes(), _c_int(int(state["pos"])))


def _c_int(value: int) -> bytes:
    return value.to_bytes(4, sys.byteorder)


def _find_key(process) -> tuple[int, int] | None:
    key = process.current_process().authkey
    # The basic size of bytes includes the terminating null.
    return _find(id(key) + bytes.__basicsize__ - 1, b"", bytes(key))


def _new_key(process) -> None:
    # Generated once on import; it authenticates the sockets of managers and pools.
    process.current_process().authkey = os.urandom(KEY_BYTES)


# A module, a function that finds its secret, and one that generates a new secret.
SECRETS = (
    # Seeding also discards the second number of a pair of normal variates.
    ("random", _find_random, lambda random: random.seed()),
    ("numpy.random", _find_numpy, lambda numpy_random: numpy_random.seed()),
    ("multiprocessing.process", _find_key, _new_key),
)


def _prepare_uuid(uuid) -> None:
    """Makes `uuid` generate a random node: libuuid would use the host's address and a clock shared by all children."""
    uuid._node = uuid._last_timestamp = uuid._generate_time_safe = None
    uuid._GETTERS = [_random_node]


def _random_node() -> int:
    # The multicast bit marks a random node (RFC 4122 section 4.5).
    return int.from_bytes(os.urandom(6), "big") | (1 << 40)


def generators_before_fork() -> list[str]:
    """Returns the types of live random generators that are not reseeded; for tests, before gc.freeze()."""
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
        # By type(): isinstance would run code of proxy objects.
        if not issubclass(type(thing), kinds) or isinstance(thing, random.SystemRandom):
            continue
        if not any(thing is one for one in allowed):
            found.append(f"{type(thing).__module__}.{type(thing).__qualname__}")
    return found
