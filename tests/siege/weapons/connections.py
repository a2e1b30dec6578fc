"""Weapons of connections and small requests."""

import secrets

from siege.attack import Attack
from weapons import weapon

THOUSANDS = 10_000

ADDRESSES = [f"127.0.{third}.{last}" for third in (7, 8) for last in range(1, 25)]
"""Peers on loopback: one address alone has few connections without a key."""


@weapon("silent connections", armed="connections")
async def silent_connections(attack: Attack) -> None:
    """Opens 10 000 connections without a key, from 48 addresses and half of them with half a head."""
    number = iter(range(1 << 40))

    def opener():
        turn = next(number)
        half = b"GET /healthz HTTP/1.1\r\nHo" if turn % 2 else b""
        return attack.open(half, source=ADDRESSES[turn % len(ADDRESSES)])

    await attack.hold(attack.many(THOUSANDS), opener)


@weapon("connections with a key", armed="connections")
async def connections_with_a_key(attack: Attack) -> None:
    """Opens 10 000 connections that show the key in a first request and then stay."""
    request = attack.head("GET", "/v1/stats")
    await attack.hold(attack.connections(THOUSANDS), lambda: attack.open(request))


@weapon("wrong keys", armed="guesses")
async def wrong_keys(attack: Attack) -> None:
    """Shows unknown keys, a new one in every request, on 16 connections."""

    async def guess(ask):
        answer = await ask("GET", "/v1/stats", key=f"silica_{secrets.token_hex(20)}")
        attack.done["guesses"] += 1
        attack.ready()
        return answer

    await attack.crew(*(attack.flood(guess) for _ in range(16)))


@weapon("requests at the rate limit", armed="calls")
async def requests_at_the_rate_limit(attack: Attack) -> None:
    """Lists sandboxes, statistics and templates on 24 connections as fast as they are answered."""
    paths = ("/v1/sandboxes", "/v1/stats", "/v1/templates", "/metrics")
    number = iter(range(1 << 40))

    async def ask_again(ask):
        answer = await ask("GET", paths[next(number) % len(paths)])
        attack.ready()
        return answer

    await attack.crew(*(attack.flood(ask_again) for _ in range(24)))
