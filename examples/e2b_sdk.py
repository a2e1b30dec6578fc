"""A program written for E2B, with E2B's own SDK: only the environment differs. Needs `pip install e2b-code-interpreter`.

    export E2B_API_KEY=e2b_…         # the key of Silica, with e2b_ in the place of silica_
    export E2B_API_URL=$SILICA_URL E2B_SANDBOX_URL=$SILICA_URL
"""

from e2b_code_interpreter import Sandbox

with Sandbox.create() as sandbox:
    sandbox.files.write("numbers.txt", "1 2 3")
    execution = sandbox.run_code("sum(map(int, open('numbers.txt').read().split()))")
    print("sum:", execution.text)
    print("shell:", sandbox.commands.run("echo hello").stdout.strip())
