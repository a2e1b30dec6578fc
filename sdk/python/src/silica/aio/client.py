"""The asynchronous client: carries flows out over connections that are kept open."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx

from silica.core import flows, requests
from silica.core.call import Answer, Call, Source
from silica.core.collect import PromptHooks
from silica.core.flow import (
    Close,
    Emit,
    Flow,
    Open,
    Outside,
    Progress,
    Read,
    Send,
    Sleep,
    Tell,
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
    from silica.review import Approval

T = TypeVar("T")


class AsyncClient:
    """Talks to one server with one key.

    What is not given comes from `SILICA_URL` and `SILICA_KEY`. `timeout` bounds requests that do
    not wait for code; `retries` bounds further attempts where they can do no harm.
    `transport` replaces how connections are made, for proxies and certificates of your own.
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
    def url(self) -> str:
        """Where the server is."""
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
    ) -> Run:
        """Runs code in a sandbox of its own, which is gone afterwards.

        `files` are put into `/workspace` before (text, bytes, or a `Path` to read), `outputs` are
        paths fetched after. `policy` is as for a cell; this waits for a person who has to approve.
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
        )
        result: Run = await self.carry_out(flows.run(build, files))
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
        """Has a model write code for a prompt, runs it, and returns what came of it.

        What is not given is the operator's or the preset's. `conversation` is `new` to keep the
        sandbox for further prompts, or the `conversation_id` of an earlier answer. `timeout` bounds
        each piece of code. Callbacks hear what the model says, its code, and what that prints, and
        `on_approval` the id of what a person is asked, and again when one has decided. Leaving, by
        Ctrl-C or an exception, stops the model and the code.
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
        """Returns what sandboxes can start from."""
        return await self.ask(requests.get_json("templates"))

    async def template(self, name: str) -> Any:
        """Returns one template."""
        return await self.ask(requests.get_json("templates", name))

    async def stats(self) -> Any:
        """Returns this key's numbers: sandboxes, cells, quota and what is used of it."""
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
        """Returns executions, newest first; an admin key sees everybody's."""
        return await self.ask(
            requests.audit(
                sandbox=sandbox, outcome=outcome, text=text, since=since, until=until, limit=limit
            )
        )

    async def verify_audit(self) -> Any:
        """Checks the audit's chain; for admin keys."""
        return await self.ask(requests.get_json("audit", "verify"))

    async def keys(self) -> Any:
        """Returns all keys without their secrets; for admin keys."""
        return await self.ask(requests.get_json("keys"))

    async def create_key(self, name: str, *, admin: bool = False, approve: bool = False) -> Any:
        """Makes a key; its secret is in this answer and never again. For admin keys.

        With `approve` it may decide about what others want to run.
        """
        return await self.ask(requests.create_key(name, admin=admin, approve=approve))

    async def revoke_key(self, id: str) -> None:
        """Revokes a key; for admin keys."""
        await self.ask(requests.revoke_key(id))

    async def approvals(self, *, state: str | None = None) -> list[Approval]:
        """Returns what waits for a person, newest first; with `state` what was decided, or `all`.

        A key that may approve sees everybody's, others their own.
        """
        return await self.ask(requests.list_approvals(state))

    async def approval(self, id: str) -> Approval:
        """Returns one approval, with the code while it waits."""
        return await self.ask(requests.get_approval(id))

    async def approve(
        self, id: str, *, reason: str | None = None, sha256: str | None = None
    ) -> Approval:
        """Lets it run; for keys that may approve, and never for the one that asked.

        With `sha256`, the digest of the code that was looked at, anything else is refused.
        """
        return await self.ask(requests.decide(id, "approve", reason, sha256))

    async def deny(
        self, id: str, *, reason: str | None = None, sha256: str | None = None
    ) -> Approval:
        """Has it never run; see `approve`."""
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
        """Sends one request and returns what the answer says."""
        return await self.carry_out(send(call))

    async def carry_out(self, flow: Flow[T]) -> T:
        """Carries a flow out and returns its result."""
        progress = Progress(flow)
        async with AsyncExitStack() as streams:
            if await self._advance(progress, streams) is not None:
                raise TypeError("this flow is to be iterated over")
        return progress.result

    async def iterate(self, flow: Flow[None]) -> AsyncGenerator[Any, None]:
        """Carries a flow out and yields what it emits."""
        progress = Progress(flow)
        async with AsyncExitStack() as streams:
            streams.callback(progress.close)
            while (emitted := await self._advance(progress, streams)) is not None:
                yield emitted.value

    async def _advance(self, progress: Progress[Any], streams: AsyncExitStack) -> Emit[Any] | None:
        """Carries out what comes before the next value to be emitted; None at the end."""
        while True:
            try:
                effect = progress.advance()
                if effect is None or isinstance(effect, Emit):
                    return effect
                progress.value = await self._perform(effect, streams)
            except BaseException as error:
                # Cancelling too is the flow's to know of, wherever it strikes.
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
        if isinstance(effect, Tell):
            told = effect.callback(effect.value)
            return await told if inspect.isawaitable(told) else told
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
        """Sends a request, again where that can do no harm."""
        for failures in count(1):
            met = await self._attempt(call)
            told = met.head if isinstance(met, _Stream) else met
            pause = pause_before_retry(call, told, failures, self._settings.retries)
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
    """An answer that is being read."""

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
    """Reads a body that may block, in a thread of its own."""
    chunks = source.chunks()
    while chunk := await asyncio.to_thread(next, chunks, b""):
        yield chunk
