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
from silica.aio.network import AsyncNetwork, AsyncPorts
from silica.aio.sandbox import AsyncSandbox
from silica.aio.secrets import AsyncSecrets
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
    LeftBehind,
    LimitHit,
    Limits,
    Link,
    Listing,
    Mark,
    Result,
    Run,
    SandboxInfo,
    Shared,
    Snapshot,
    Truncated,
    Usage,
    UsageSample,
)
from silica.network import Network, Ports
from silica.networks import (
    CellNetwork,
    Connection,
    Denied,
    ExposedPort,
    Exposure,
    NetworkCheck,
    NetworkInfo,
    NetworkOptions,
    NetworkRule,
    NetworkUsage,
    SecretInfo,
)
from silica.review import Approval, Finding
from silica.sandbox import Sandbox
from silica.secrets import Secrets
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
    "AsyncNetwork",
    "AsyncPorts",
    "AsyncSandbox",
    "AsyncSecrets",
    "Attempt",
    "BadAnswer",
    "BadRequest",
    "CannotConnect",
    "CannotStart",
    "Cell",
    "CellEvent",
    "CellNetwork",
    "CellUsage",
    "ChangedFile",
    "Client",
    "CommandEvent",
    "CommandFailed",
    "CommandHandle",
    "CommandResult",
    "Commands",
    "Conflict",
    "Connection",
    "ConnectionLost",
    "Denied",
    "DiskFull",
    "Done",
    "Entry",
    "ErrorInfo",
    "Execution",
    "ExecutionFailed",
    "Exited",
    "ExposedPort",
    "Exposure",
    "FileChanges",
    "Files",
    "Finding",
    "Forbidden",
    "Gap",
    "Interpretation",
    "Kernel",
    "KernelInfo",
    "Kernels",
    "LeftBehind",
    "LimitHit",
    "Limits",
    "Link",
    "Listing",
    "MadeFile",
    "Mark",
    "ModelUsage",
    "Network",
    "NetworkCheck",
    "NetworkInfo",
    "NetworkOptions",
    "NetworkRule",
    "NetworkUsage",
    "NotADirectory",
    "NotAFile",
    "NotFound",
    "PolicyBlocked",
    "Ports",
    "Question",
    "Raised",
    "RateLimited",
    "Refused",
    "Result",
    "Run",
    "Sandbox",
    "SandboxEnded",
    "SandboxInfo",
    "SecretInfo",
    "Secrets",
    "ServerFault",
    "Shared",
    "Shown",
    "SilicaError",
    "Snapshot",
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
    network: NetworkOptions | Mapping[str, object] | None = None,
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
            network=network,
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
    network: NetworkOptions | Mapping[str, object] | None = None,
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
            network=network,
        )
