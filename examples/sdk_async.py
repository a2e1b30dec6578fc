"""The Python SDK, asynchronous: two sandboxes work at the same time. Needs SILICA_URL and SILICA_KEY."""

import asyncio

from silica import AsyncSandbox


async def square(number: int) -> str:
    async with AsyncSandbox.create() as sandbox:
        execution = await sandbox.run_code(f"{number} ** 2")
        return execution.text


async def main() -> None:
    print("squares:", await asyncio.gather(square(6), square(7)))


asyncio.run(main())
