"""Runs untrusted code on a Silica server.

```python
from silica import Sandbox

with Sandbox.create() as sandbox:
    print(sandbox.run_code("6 * 7").text)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.aio.cells import AsyncCell
from silica.aio.client import AsyncClient
from silica.aio.commands import AsyncCommandHandle, AsyncCommands
from silica.aio.files import AsyncFiles
from silica.aio.kernels import AsyncKernel, AsyncKernels
from silica.aio.sandbox import AsyncSandbox
from silica.cells import Cell
from silica.client import Client
from silica.commands import CommandHandle, Commands
from silica.errors import (
    BadAnswer,
    BadRequest,
    CannotConnect,
    CannotStart,
    CommandFailed,
    Conflict,
    ConnectionLost,
    DiskFull,
    ExecutionFailed,
    Forbidden,
    NotADirectory,
    NotAFile,
    NotFound,
    PolicyBlocked,
    RateLimited,
    Refused,
    SandboxEnded,
    ServerFault,
    SilicaError,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from silica.events import (
    Asked,
    CellEvent,
    CommandEvent,
    Done,
    Exited,
    Gap,
    Question,
    Raised,
    Shown,
    Start,
    Stderr,
    Stdout,
)
from silica.files import Files
from silica.interpretation import Attempt, Interpretation, MadeFile, ModelUsage
from silica.kernels import Kernel, Kernels
from silica.models import (
    CellUsage,
    ChangedFile,
    CommandResult,
    Entry,
    ErrorInfo,
    Execution,
    FileChanges,
    KernelInfo,
    LimitHit,
    Limits,
    Link,
    Listing,
    Result,
    Run,
    SandboxInfo,
    Shared,
    Truncated,
    Usage,
    UsageSample,
)
from silica.review import Approval, Finding
from silica.sandbox import Sandbox
from silica.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from silica.core.flows import Given

__all__ = [
    "Approval",
    "Asked",
    "AsyncCell",
    "AsyncClient",
    "AsyncCommandHandle",
    "AsyncCommands",
    "AsyncFiles",
    "AsyncKernel",
    "AsyncKernels",
    "AsyncSandbox",
    "Attempt",
    "BadAnswer",
    "BadRequest",
    "CannotConnect",
    "CannotStart",
    "Cell",
    "CellEvent",
    "CellUsage",
    "ChangedFile",
    "Client",
    "CommandEvent",
    "CommandFailed",
    "CommandHandle",
    "CommandResult",
    "Commands",
    "Conflict",
    "ConnectionLost",
    "DiskFull",
    "Done",
    "Entry",
    "ErrorInfo",
    "Execution",
    "ExecutionFailed",
    "Exited",
    "FileChanges",
    "Files",
    "Finding",
    "Forbidden",
    "Gap",
    "Interpretation",
    "Kernel",
    "KernelInfo",
    "Kernels",
    "LimitHit",
    "Limits",
    "Link",
    "Listing",
    "MadeFile",
    "ModelUsage",
    "NotADirectory",
    "NotAFile",
    "NotFound",
    "PolicyBlocked",
    "Question",
    "Raised",
    "RateLimited",
    "Refused",
    "Result",
    "Run",
    "Sandbox",
    "SandboxEnded",
    "SandboxInfo",
    "ServerFault",
    "Shared",
    "Shown",
    "SilicaError",
    "Start",
    "Stderr",
    "Stdout",
    "TimedOut",
    "TooLarge",
    "Truncated",
    "Unauthorized",
    "Unavailable",
    "Usage",
    "UsageSample",
    "__version__",
    "run",
    "run_async",
]


def run(
    code: str,
    *,
    template: str | None = None,
    limits: Limits | Mapping[str, float] | None = None,
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] | None = None,
    timeout: float | None = None,
    files: Mapping[str, Given] | None = None,
    outputs: Sequence[str] | None = None,
    policy: str | None = None,
) -> Run:
    """Runs code once, in a new sandbox that is deleted afterwards.

    It uses a `Client` with the default settings; arguments and errors are those of `Client.run`.
    """
    with Client() as client:
        return client.run(
            code,
            template=template,
            limits=limits,
            env=env,
            arguments=arguments,
            timeout=timeout,
            files=files,
            outputs=outputs,
            policy=policy,
        )


async def run_async(
    code: str,
    *,
    template: str | None = None,
    limits: Limits | Mapping[str, float] | None = None,
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] | None = None,
    timeout: float | None = None,
    files: Mapping[str, Given] | None = None,
    outputs: Sequence[str] | None = None,
    policy: str | None = None,
) -> Run:
    """Runs code once, in a new sandbox that is deleted afterwards.

    It uses an `AsyncClient` with the default settings; arguments and errors are those of
    `AsyncClient.run`.
    """
    async with AsyncClient() as client:
        return await client.run(
            code,
            template=template,
            limits=limits,
            env=env,
            arguments=arguments,
            timeout=timeout,
            files=files,
            outputs=outputs,
            policy=policy,
        )
