"""Weapons of many connections and sandboxes: what several keys, and one key with a larger quota, take."""

from siege.attack import Attack
from weapons import weapon


@weapon("many keys", armed="connections")
async def many_keys(attack: Attack) -> None:
    """Fills the connections of the whole server with those of eight more keys, which show their key and stay."""
    heads = [attack.head("GET", "/v1/stats", key=key) for key in attack.other_keys]
    number = iter(range(1 << 40))
    opener = lambda: attack.open(heads[next(number) % len(heads)])  # noqa: E731
    await attack.hold(attack.many(8 * 512, short=1500), opener)
