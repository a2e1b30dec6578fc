"""Asks a provider with its own client, and prints what came as JSON.

Arguments: the wire format and the address; the request comes on standard input, the key in KEY.
"""

import json
import os
import sys


def anthropic_answer(base_url, request):
    import anthropic

    client = anthropic.Anthropic(api_key=os.environ["KEY"], base_url=base_url, max_retries=0)
    with client.messages.stream(**request) as stream:
        message = stream.get_final_message()
    usage = message.usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "calls": [
            {"id": block.id, "name": block.name, "input": block.input}
            for block in message.content
            if block.type == "tool_use"
        ],
        "stop": message.stop_reason,
        "input_tokens": usage.input_tokens + cached,
        "output_tokens": usage.output_tokens,
    }


def chat_answer(base_url, request):
    import openai

    client = openai.OpenAI(api_key=os.environ["KEY"], base_url=base_url, max_retries=0)
    text, calls, stop, usage = "", {}, None, None
    for chunk in client.chat.completions.create(**request):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            stop = choice.finish_reason or stop
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                known = calls.setdefault(call.index, {"id": call.id, "name": call.function.name, "input": ""})
                known["input"] += call.function.arguments or ""
    for call in calls.values():
        call["input"] = json.loads(call["input"])
    return {
        "text": text,
        "calls": list(calls.values()),
        "stop": stop,
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
    }


def main():
    wire, base_url = sys.argv[1:]
    request = json.load(sys.stdin)
    answer = {"anthropic": anthropic_answer, "chat": chat_answer}[wire](base_url, request)
    print(json.dumps(answer))


main()
