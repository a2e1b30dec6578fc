"""The blocking client: carries flows out over connections that are kept open."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx

from silica.core import flows, requests
from silica.core.call import Answer, Call
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


class Client:
    """Talks to one server with one key.

    What is not given comes from `SILICA_URL` and `SILICA_KEY`. `timeout` bounds requests that do
    not wait for code; `retries` bounds further attempts where they can do no harm. Threads may
    share it.
    `transport` replaces how connections are made, for proxies and certificates of your own.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._settings = Settings.of(url, key, timeout, retries)
        transport = transport or httpx.HTTPTransport(**self._settings.transport_arguments())
        self._http = httpx.Client(transport=transport, **self._settings.client_arguments())

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._settings.url

    def run(
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
        result: Run = self.carry_out(flows.run(build, files))
        return result

    def interpret(
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
        return self.carry_out(flows.interpret(build, files, hooks))

    def templates(self) -> Any:
        """Returns what sandboxes can start from."""
        return self.ask(requests.get_json("templates"))

    def template(self, name: str) -> Any:
        """Returns one template."""
        return self.ask(requests.get_json("templates", name))

    def stats(self) -> Any:
        """Returns this key's numbers: sandboxes, cells, quota and what is used of it."""
        return self.ask(requests.get_json("stats"))

    def audit(
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
        return self.ask(
            requests.audit(
                sandbox=sandbox, outcome=outcome, text=text, since=since, until=until, limit=limit
            )
        )

    def verify_audit(self) -> Any:
        """Checks the audit's chain; for admin keys."""
        return self.ask(requests.get_json("audit", "verify"))

    def keys(self) -> Any:
        """Returns all keys without their secrets; for admin keys."""
        return self.ask(requests.get_json("keys"))

    def create_key(self, name: str, *, admin: bool = False, approve: bool = False) -> Any:
        """Makes a key; its secret is in this answer and never again. For admin keys.

        With `approve` it may decide about what others want to run.
        """
        return self.ask(requests.create_key(name, admin=admin, approve=approve))

    def revoke_key(self, id: str) -> None:
        """Revokes a key; for admin keys."""
        self.ask(requests.revoke_key(id))

    def approvals(self, *, state: str | None = None) -> list[Approval]:
        """Returns what waits for a person, newest first; with `state` what was decided, or `all`.

        A key that may approve sees everybody's, others their own.
        """
        return self.ask(requests.list_approvals(state))

    def approval(self, id: str) -> Approval:
        """Returns one approval, with the code while it waits."""
        return self.ask(requests.get_approval(id))

    def approve(self, id: str, *, reason: str | None = None, sha256: str | None = None) -> Approval:
        """Lets it run; for keys that may approve, and never for the one that asked.

        With `sha256`, the digest of the code that was looked at, anything else is refused.
        """
        return self.ask(requests.decide(id, "approve", reason, sha256))

    def deny(self, id: str, *, reason: str | None = None, sha256: str | None = None) -> Approval:
        """Has it never run; see `approve`."""
        return self.ask(requests.decide(id, "deny", reason, sha256))

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def ask(self, call: Call[T]) -> T:
        """Sends one request and returns what the answer says."""
        return self.carry_out(send(call))

    def carry_out(self, flow: Flow[T]) -> T:
        """Carries a flow out and returns its result."""
        progress = Progress(flow)
        with ExitStack() as streams:
            if self._advance(progress, streams) is not None:
                raise TypeError("this flow is to be iterated over")
        return progress.result

    def iterate(self, flow: Flow[None]) -> Generator[Any, None, None]:
        """Carries a flow out and yields what it emits."""
        progress = Progress(flow)
        with ExitStack() as streams:
            streams.callback(progress.close)
            while (emitted := self._advance(progress, streams)) is not None:
                yield emitted.value

    def _advance(self, progress: Progress[Any], streams: ExitStack) -> Emit[Any] | None:
        """Carries out what comes before the next value to be emitted; None at the end."""
        while True:
            try:
                effect = progress.advance()
                if effect is None or isinstance(effect, Emit):
                    return effect
                progress.value = self._perform(effect, streams)
            except BaseException as error:
                # Ctrl-C too is the flow's to know of, wherever it strikes.
                if progress.over:
                    raise
                progress.error = error

    def _perform(self, effect: Outside, streams: ExitStack) -> Any:
        if isinstance(effect, Send):
            return self._send(effect.call)
        if isinstance(effect, Open):
            stream = self._open(effect.call)
            streams.callback(stream.close)
            return stream
        if isinstance(effect, Read):
            return self._read(cast("_Stream", effect.stream))
        if isinstance(effect, Close):
            return cast("_Stream", effect.stream).close()
        if isinstance(effect, Sleep):
            return time.sleep(effect.seconds)
        if isinstance(effect, Tell):
            return effect.callback(effect.value)
        return effect.function()

    def _send(self, call: Call[object]) -> Answer:
        stream = self._open(call)
        try:
            pieces = [stream.head.body, *iter(partial(self._read, stream), b"")]
        finally:
            stream.close()
        return Answer(stream.head.status, stream.head.headers, b"".join(pieces))

    def _open(self, call: Call[object]) -> _Stream:
        """Sends a request, again where that can do no harm."""
        for failures in count(1):
            met = self._attempt(call)
            told = met.head if isinstance(met, _Stream) else met
            pause = pause_before_retry(call, told, failures, self._settings.retries)
            if pause is None:
                break
            time.sleep(pause)
        if isinstance(met, SilicaError):
            raise met
        return met

    def _attempt(self, call: Call[object]) -> _Stream | SilicaError:
        arguments = self._settings.request_arguments(call)
        if call.body is not None and not isinstance(call.body, bytes):
            arguments["content"] = call.body.chunks()
        try:
            response = self._http.send(self._http.build_request(**arguments), stream=True)
            if response.is_error:
                response.read()
        except httpx.HTTPError as error:
            met = self._settings.translated(error)
            met.__cause__ = error
            return met
        return _Stream(response)

    def _read(self, stream: _Stream) -> bytes:
        try:
            return stream.read()
        except httpx.HTTPError as error:
            raise self._settings.translated(error) from error


class _Stream:
    """An answer that is being read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        body = response.content if response.is_error else b""
        self.head = Answer(response.status_code, response.headers, body)
        self._pieces: Iterator[bytes] = iter(()) if response.is_error else response.iter_bytes()

    def read(self) -> bytes:
        return next((piece for piece in self._pieces if piece), b"")

    def close(self) -> None:
        self._response.close()
