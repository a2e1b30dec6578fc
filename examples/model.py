"""A prompt: a model writes code, the code runs in a sandbox, its answer comes back.

Needs SILICA_URL, SILICA_KEY and a server with a model; model.toml is a scripted one.
"""

from silica import Client

with Client() as client:
    answer = client.interpret("Print the first five squares")
    print("code:", answer.code)
    print("output:", answer.output)
