"""A code interpreter as a tool of agent frameworks.

Each function returns a tool in the form of one framework, which is imported only by that function.
All of them run code in one sandbox, so variables and files live on between calls:

    from silica import tools

    with tools.CodeInterpreter() as interpreter:
        agent = create_agent(model, tools=[tools.langchain(interpreter)])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from silica.errors import PolicyBlocked, SandboxEnded
from silica.sandbox import Sandbox

if TYPE_CHECKING:
    from types import TracebackType

    from silica.client import Client
    from silica.models import Execution

NAME = "run_python"
DESCRIPTION = (
    "Run Python in a sandbox and return what it prints, shows and raises. "
    "Variables, imports and files live on for the next call."
)
TEXT_CHARS_MAX = 50_000


class CodeInterpreter:
    """One sandbox for the tools of one agent. It is created by the first call of `run`."""

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        *,
        client: Client | None = None,
        timeout: float | None = None,
        policy: str | None = None,
        **options: Any,
    ) -> None:
        """Uses `sandbox`, or creates one with `options`, which are those of `Sandbox.create`."""
        self._sandbox = sandbox
        self._owns_sandbox = False
        self._client = client
        self._options = options
        self._timeout = timeout
        self._policy = policy
        self.last: Execution | None = None

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox; its files hold what the code made."""
        if self._sandbox is None:
            self._sandbox = Sandbox.create(client=self._client, **self._options)
            self._owns_sandbox = True
        return self._sandbox

    def run(self, code: str) -> str:
        """Runs Python and returns its output, results and errors as one text, for a model.

        `last` is the execution, with pictures and tables. Code that a policy blocks is not run; the
        text says why. A sandbox that has ended is replaced.
        """
        try:
            self.last = self.sandbox.run_code(code, timeout=self._timeout, policy=self._policy)
        except PolicyBlocked as blocked:
            return f"The code was not run: {blocked}"
        except SandboxEnded:
            if not self._owns_sandbox:
                raise
            self._sandbox = None
            self.last = self.sandbox.run_code(code, timeout=self._timeout, policy=self._policy)
            return f"The earlier sandbox has ended; variables are gone.\n{text_of(self.last)}"
        return text_of(self.last)

    def close(self) -> None:
        """Deletes the sandbox if this object created it."""
        if self._sandbox is not None and self._owns_sandbox:
            self._sandbox.delete()
            self._sandbox.close()
            self._sandbox = None

    def __enter__(self) -> CodeInterpreter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def text_of(execution: Execution) -> str:
    """Returns what an execution printed, showed and raised as one text of bounded length."""
    parts = [execution.stdout, execution.stderr]
    parts += [result.text for result in execution.results if result.text]
    if execution.error is not None:
        parts.append("\n".join(execution.error.traceback))
    elif execution.message:
        parts.append(execution.message)
    text = "\n".join(part.rstrip("\n") for part in parts if part)
    if len(text) > TEXT_CHARS_MAX:
        half = TEXT_CHARS_MAX // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return text or f"{execution.outcome}, without output"


def langchain(interpreter: CodeInterpreter | None = None) -> Any:
    """Returns a `StructuredTool` of LangChain."""
    from langchain_core.tools import StructuredTool  # noqa: PLC0415 - only if it is used.

    run = (interpreter or CodeInterpreter()).run
    return StructuredTool.from_function(run, name=NAME, description=DESCRIPTION)


def llamaindex(interpreter: CodeInterpreter | None = None) -> Any:
    """Returns a `FunctionTool` of LlamaIndex."""
    from llama_index.core.tools import FunctionTool  # noqa: PLC0415

    run = (interpreter or CodeInterpreter()).run
    return FunctionTool.from_defaults(run, name=NAME, description=DESCRIPTION)


def smolagents(interpreter: CodeInterpreter | None = None) -> Any:
    """Returns a `Tool` of smolagents."""
    from smolagents import Tool  # noqa: PLC0415

    used = interpreter or CodeInterpreter()

    class RunPython(Tool):  # type: ignore[misc]
        """Runs Python in a sandbox."""

        name = NAME
        description = DESCRIPTION
        inputs = {"code": {"type": "string", "description": "Python code"}}  # noqa: RUF012
        output_type = "string"

        def forward(self, code: str) -> str:
            return used.run(code)

    return RunPython()


def pydantic_ai(interpreter: CodeInterpreter | None = None) -> Any:
    """Returns a `Tool` of Pydantic AI."""
    from pydantic_ai import Tool  # noqa: PLC0415

    run = (interpreter or CodeInterpreter()).run
    return Tool(run, name=NAME, description=DESCRIPTION, takes_ctx=False)


def openai_agents(interpreter: CodeInterpreter | None = None) -> Any:
    """Returns a function tool of the OpenAI Agents SDK."""
    from agents import function_tool  # noqa: PLC0415

    run = (interpreter or CodeInterpreter()).run
    return function_tool(run, name_override=NAME, description_override=DESCRIPTION)


@dataclass(frozen=True, slots=True)
class AnthropicTool:
    """A tool for `messages.create(tools=[tool.definition])`, and what to do with its use."""

    definition: dict[str, Any]
    interpreter: CodeInterpreter

    def result(self, block: Any) -> dict[str, Any]:
        """Runs the code of a `tool_use` block; returns the `tool_result` block that answers it."""
        text = self.interpreter.run(str(block.input["code"]))
        last = self.interpreter.last
        failed = last is None or not last.ok
        return {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": text,
            "is_error": failed,
        }


def anthropic(interpreter: CodeInterpreter | None = None) -> AnthropicTool:
    """Returns a tool for Anthropic's Messages API."""
    schema = {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "Python code"}},
        "required": ["code"],
    }
    definition = {"name": NAME, "description": DESCRIPTION, "input_schema": schema}
    return AnthropicTool(definition, interpreter or CodeInterpreter())
