"""Weapons against the audit log."""

import random
import secrets

from siege.attack import Attack
from weapons import weapon

CODE_BYTES = (1 << 20) - 64
"""Just below the longest code."""


@weapon("audit flood", armed="cells")
async def audit_flood(attack: Attack) -> None:
    """Runs tiny cells on eight connections, and cells of a megabyte of random text on four, as fast as they are answered."""
    fleet = await attack.fleet(attack.many(8, short=4))
    if not fleet:
        return

    async def tiny(ask):
        answer = await ask("POST", f"/v1/sandboxes/{random.choice(fleet)}/cells", {"code": "1"}, what="cells")
        attack.ready()
        return answer

    async def long(ask):
        code = "# " + secrets.token_hex(CODE_BYTES // 2)
        return await ask("POST", f"/v1/sandboxes/{random.choice(fleet)}/cells", {"code": code}, what="long cells")

    await attack.crew(*(attack.flood(tiny) for _ in range(8)), *(attack.flood(long) for _ in range(4)))


@weapon("audit searches", armed="searches")
async def audit_searches(attack: Attack) -> None:
    """Searches the whole log for a text that is not there, on eight connections."""

    async def search(ask):
        answer = await ask("GET", f"/v1/audit?limit=1000&text={secrets.token_hex(8)}", what="searches")
        attack.ready()
        return answer

    await attack.crew(*(attack.flood(search) for _ in range(8)))
