"""The asynchronous client: runs flows over persistent connections."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx

from silica.aio.secrets import AsyncSecrets
from silica.core import flows, requests
from silica.core.call import Answer, Call, Source
from silica.core.collect import PromptHooks
from silica.core.flow import (
    Close,
    Emit,
    Flow,
    Notify,
    Open,
    Outside,
    Progress,
    Read,
    Send,
    Sleep,
    send,
)
from silica.core.http import DEFAULT_RETRIES, DEFAULT_TIMEOUT, Settings
from silica.core.retry import pause_before_retry
from silica.errors import SilicaError

if TYPE_CHECKING:
    from types import TracebackType

    from silica.core.collect import OnText
    from silica.core.flows import Given
    from silica.interpretation import Interpretation
    from silica.models import Limits, Run
    from silica.networks import NetworkOptions
    from silica.review import Approval

T = TypeVar("T")


class AsyncClient:
    """A connection to one server with one key.

    `url` defaults to `SILICA_URL` or `http://127.0.0.1:8585`, `key` to `SILICA_KEY`. The file
    that `SILICA_CA` names holds certificates to trust besides those of the system. `timeout`,
    in seconds, bounds requests that do not wait for code. `retries` bounds further attempts of
    a request; only requests that are safe to repeat are attempted again. `transport` replaces
    the httpx transport, for proxies and custom certificates. Raises `ValueError` if `url` is
    not an http or https URL.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = Settings.of(url, key, timeout, retries)
        transport = transport or httpx.AsyncHTTPTransport(**self._settings.transport_arguments())
        self._http = httpx.AsyncClient(transport=transport, **self._settings.client_arguments())

    @property
    def secrets(self) -> AsyncSecrets:
        """The secrets of this key."""
        return AsyncSecrets(self)

    @property
    def url(self) -> str:
        """The base URL of the server."""
        return self._settings.url

    async def run(
        self,
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
        """Runs code in a new sandbox, which is deleted afterwards, and returns the result.

        `files` maps paths in `/workspace` to text, bytes or a local `Path`; they are written before
        the code runs. `outputs` names files to return afterwards. `timeout` is in seconds of
        wall-clock time. `policy` names the policy that checks the code; if it requires an approval,
        the call waits for the decision. `network` says what the code may reach: nothing without it.
        Raises `PolicyBlocked` if the policy forbids the code; code that fails is reported in
        `Run.outcome`, not raised.
        """
        build = partial(
            requests.run,
            code,
            template=template,
            limits=limits,
            env=env,
            arguments=arguments,
            timeout=timeout,
            outputs=outputs,
            policy=policy,
            network=network,
        )
        result: Run = await self.carry_out(flows.run(build, files, outputs))
        return result

    async def interpret(
        self,
        prompt: str,
        *,
        model: str | None = None,
        preset: str | None = None,
        policy: str | None = None,
        shape: str | None = None,
        rounds: int | None = None,
        conversation: str | None = None,
        template: str | None = None,
        limits: Limits | Mapping[str, float] | None = None,
        env: Mapping[str, str] | None = None,
        files: Mapping[str, Given] | None = None,
        timeout: float | None = None,
        on_text: OnText = None,
        on_code: OnText = None,
        on_stdout: OnText = None,
        on_stderr: OnText = None,
        on_approval: OnText = None,
    ) -> Interpretation:
        """Lets a model write code for a prompt, runs the code, and returns the answer.

        Arguments that are not given have the values of the preset or of the server. `conversation`
        is `new` to keep the sandbox for further prompts, or the `conversation_id` of an earlier
        answer. `timeout`, in seconds, bounds each execution of code. `on_text` receives the text of
        the model, `on_code` its code, `on_stdout` and `on_stderr` the output of the code, and
        `on_approval` the id of an approval when it is requested and when it is decided. Cancelling
        the call, or an exception in a callback, stops the model and the code. Raises
        `ConnectionLost` if the connection breaks: the server then stops too, and the request cannot
        be resumed.
        """
        build = partial(
            requests.interpret,
            prompt,
            model=model,
            preset=preset,
            policy=policy,
            shape=shape,
            rounds=rounds,
            conversation=conversation,
            template=template,
            limits=limits,
            env=env,
            timeout_seconds=timeout,
        )
        hooks = PromptHooks(on_text, on_code, on_stdout, on_stderr, on_approval)
        return await self.carry_out(flows.interpret(build, files, hooks))

    async def templates(self) -> Any:
        """Returns the templates from which sandboxes can be created."""
        return await self.ask(requests.get_json("templates"))

    async def template(self, name: str) -> Any:
        """Returns a template; raises `NotFound` if there is none of that name."""
        return await self.ask(requests.get_json("templates", name))

    async def stats(self) -> Any:
        """Returns the statistics of this key: sandboxes, cells, its quotas and their use."""
        return await self.ask(requests.get_json("stats"))

    async def audit(
        self,
        *,
        sandbox: str | None = None,
        outcome: str | None = None,
        text: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> Any:
        """Returns audit records of executions, newest first.

        An admin key sees the records of all keys, any other key its own. `text` searches the code,
        `since` and `until` are RFC 3339 times, and `limit` bounds the number of records.
        """
        return await self.ask(
            requests.audit(
                sandbox=sandbox, outcome=outcome, text=text, since=since, until=until, limit=limit
            )
        )

    async def verify_audit(self) -> Any:
        """Verifies the hash chain of the audit log. Requires an admin key."""
        return await self.ask(requests.get_json("audit", "verify"))

    async def keys(self) -> Any:
        """Returns all keys without their secrets. Requires an admin key."""
        return await self.ask(requests.get_json("keys"))

    async def create_key(
        self,
        name: str,
        *,
        admin: bool = False,
        approve: bool = False,
        network: Mapping[str, object] | None = None,
    ) -> Any:
        """Creates a key and returns it with its secret, which is not stored. Requires an admin key.

        A key with `approve` may approve and deny the code of other keys. `network`, a `mode` and
        the rules of `allow` as text, is the most that its sandboxes may reach.
        """
        return await self.ask(
            requests.create_key(name, admin=admin, approve=approve, network=network)
        )

    async def revoke_key(self, id: str) -> None:
        """Revokes a key. Requires an admin key; raises `NotFound` if there is no such key."""
        await self.ask(requests.revoke_key(id))

    async def approvals(self, *, state: str | None = None) -> list[Approval]:
        """Returns pending approvals, newest first.

        `state` selects `approved`, `denied`, `expired` or `all` instead. A key with the right to
        approve sees the approvals of all keys, any other key its own.
        """
        return await self.ask(requests.list_approvals(state))

    async def approval(self, id: str) -> Approval:
        """Returns an approval, with its code while it is pending; raises `NotFound`."""
        return await self.ask(requests.get_approval(id))

    async def approve(
        self,
        id: str,
        *,
        reason: str | None = None,
        sha256: str | None = None,
        scope: str | None = None,
    ) -> Approval:
        """Approves code, which then runs, or a connection. Requires the right to approve.

        Raises `Forbidden` if the code is from this key, unless the server allows that. With
        `sha256`, the digest of the code that was reviewed, the server rejects the decision if the
        code is different. `scope` is how far the approval of a connection reaches: `once` (the
        default), `sandbox` or `key`.
        """
        return await self.ask(requests.decide(id, "approve", reason, sha256, scope))

    async def deny(
        self, id: str, *, reason: str | None = None, sha256: str | None = None
    ) -> Approval:
        """Denies the code, which then never runs.

        Requires the key of the code, or one with the right to approve. With `sha256` the server
        rejects the decision if the code has another digest.
        """
        return await self.ask(requests.decide(id, "deny", reason, sha256))

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def ask(self, call: Call[T]) -> T:
        """Sends one request and returns the parsed answer."""
        return await self.carry_out(send(call))

    async def carry_out(self, flow: Flow[T]) -> T:
        """Runs a flow and returns its result."""
        progress = Progress(flow)
        async with AsyncExitStack() as streams:
            if await self._advance(progress, streams) is not None:
                raise TypeError("this flow emits values; use iterate")
        return progress.result

    async def iterate(self, flow: Flow[None]) -> AsyncGenerator[Any, None]:
        """Runs a flow and yields the values it emits."""
        progress = Progress(flow)
        async with AsyncExitStack() as streams:
            streams.callback(progress.close)
            while (emitted := await self._advance(progress, streams)) is not None:
                yield emitted.value

    async def _advance(self, progress: Progress[Any], streams: AsyncExitStack) -> Emit[Any] | None:
        """Runs a flow up to the next value that it emits; returns None at its end."""
        while True:
            try:
                effect = progress.advance()
                if effect is None or isinstance(effect, Emit):
                    return effect
                progress.value = await self._perform(effect, streams)
            except BaseException as error:
                # The flow receives every exception, also a cancellation, so that it can clean up.
                if progress.over:
                    raise
                progress.error = error

    async def _perform(self, effect: Outside, streams: AsyncExitStack) -> Any:
        if isinstance(effect, Send):
            return await self._send(effect.call)
        if isinstance(effect, Open):
            stream = await self._open(effect.call)
            streams.push_async_callback(stream.close)
            return stream
        if isinstance(effect, Read):
            return await self._read(cast("_Stream", effect.stream))
        if isinstance(effect, Close):
            return await cast("_Stream", effect.stream).close()
        if isinstance(effect, Sleep):
            return await asyncio.sleep(effect.seconds)
        if isinstance(effect, Notify):
            returned = effect.callback(effect.value)
            return await returned if inspect.isawaitable(returned) else returned
        return await asyncio.to_thread(effect.function)

    async def _send(self, call: Call[object]) -> Answer:
        stream = await self._open(call)
        try:
            pieces = [stream.head.body]
            while piece := await self._read(stream):
                pieces.append(piece)
        finally:
            await stream.close()
        return Answer(stream.head.status, stream.head.headers, b"".join(pieces))

    async def _open(self, call: Call[object]) -> _Stream:
        """Sends a request, and repeats it if that is safe and may help."""
        for failures in count(1):
            met = await self._attempt(call)
            answered = met.head if isinstance(met, _Stream) else met
            pause = pause_before_retry(call, answered, failures, self._settings.retries)
            if pause is None:
                break
            await asyncio.sleep(pause)
        if isinstance(met, SilicaError):
            raise met
        return met

    async def _attempt(self, call: Call[object]) -> _Stream | SilicaError:
        arguments = self._settings.request_arguments(call)
        if call.body is not None and not isinstance(call.body, bytes):
            arguments["content"] = _sent(call.body)
        try:
            response = await self._http.send(self._http.build_request(**arguments), stream=True)
            if response.is_error:
                await response.aread()
        except httpx.HTTPError as error:
            met = self._settings.translated(error)
            met.__cause__ = error
            return met
        return _Stream(response)

    async def _read(self, stream: _Stream) -> bytes:
        try:
            return await stream.read()
        except httpx.HTTPError as error:
            raise self._settings.translated(error) from error


class _Stream:
    """An answer whose body is read in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        body = response.content if response.is_error else b""
        self.head = Answer(response.status_code, response.headers, body)
        self._pieces: AsyncIterator[bytes] | None = None

    async def read(self) -> bytes:
        if self._response.is_error:
            return b""
        self._pieces = self._pieces or self._response.aiter_bytes()
        async for piece in self._pieces:
            if piece:
                return piece
        return b""

    async def close(self) -> None:
        await self._response.aclose()


async def _sent(source: Source) -> AsyncIterator[bytes]:
    """Yields the chunks of a body; reads each in a thread, since that may block."""
    chunks = source.chunks()
    while chunk := await asyncio.to_thread(next, chunks, b""):
        yield chunk
