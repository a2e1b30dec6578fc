"""Each framework calls its tool twice in one sandbox, as an agent would."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from silica import tools


@pytest.fixture
def interpreter():
    with tools.CodeInterpreter() as one:
        yield one


FIRST, SECOND = "x = 6 * 7\nprint(x)", "1 / 0 if x != 42 else x + 1"


def test_langchain(interpreter):
    tool = tools.langchain(interpreter)
    assert set(tool.args) == {"code"}
    assert tool.invoke({"code": FIRST}) == "42"
    assert tool.invoke({"code": SECOND}) == "43"


def test_llamaindex(interpreter):
    tool = tools.llamaindex(interpreter)
    assert tool.metadata.name == "run_python"
    assert str(tool.call(code=FIRST)) == "42"
    assert str(tool.call(code=SECOND)) == "43"


def test_smolagents(interpreter):
    tool = tools.smolagents(interpreter)
    assert tool(code=FIRST) == "42"
    assert tool(code=SECOND) == "43"


def test_pydantic_ai(interpreter):
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    codes = [FIRST, SECOND]

    def model(messages, info):
        if codes:
            return ModelResponse(parts=[ToolCallPart("run_python", {"code": codes.pop(0)})])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[0].content))])

    agent = Agent(FunctionModel(model), tools=[tools.pydantic_ai(interpreter)])
    assert agent.run_sync("go").output == "43"


def test_openai_agents(interpreter):
    from agents.tool_context import ToolContext

    tool = tools.openai_agents(interpreter)
    assert tool.params_json_schema["required"] == ["code"]

    def call(code: str) -> str:
        arguments = json.dumps({"code": code})
        context = ToolContext(context=None, tool_name=tool.name, tool_call_id="1", tool_arguments=arguments)
        return asyncio.run(tool.on_invoke_tool(context, arguments))

    assert call(FIRST) == "42"
    assert call(SECOND) == "43"


def test_anthropic(interpreter):
    tool = tools.anthropic(interpreter)
    assert tool.definition["input_schema"]["required"] == ["code"]

    def use(code: str) -> dict:
        return tool.result(SimpleNamespace(id="toolu_1", input={"code": code}))

    assert use(FIRST) == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42", "is_error": False}
    failed = use("1 / 0")
    assert failed["is_error"] and "ZeroDivisionError" in failed["content"]


def test_blocked_code_and_ended_sandboxes_are_texts():
    with tools.CodeInterpreter(policy="strict") as strict:
        assert "not run" in strict.run("import os\nos.system('id')")
    with tools.CodeInterpreter() as one:
        one.run("x = 1")
        one.sandbox.delete()
        assert "has ended" in one.run("print(2)")
