"""The weapons, by name. Each is one function with one line that says what it does."""

from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Weapon:
    """A name, a line of description, and what it does with an `Attack`."""

    name: str
    what: str
    attack: Callable
    armed: str
    """What must have been counted at least once: a weapon that did nothing proves nothing."""


WEAPONS: dict[str, Weapon] = {}


def weapon(name: str, armed: str):
    """Registers a weapon; its description is the first line of the function's docstring."""

    def register(function):
        WEAPONS[name] = Weapon(name, function.__doc__.strip().splitlines()[0], function, armed)
        return function

    return register


from weapons import bodies, connections, hoards, keys, output, processes, records, transfers  # noqa: E402, F401
