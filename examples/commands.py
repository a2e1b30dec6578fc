"""Programs beside the interpreter: to their end, and in the background. Needs SILICA_URL and SILICA_KEY."""

from silica import Sandbox

with Sandbox.create() as sandbox:
    print("shell:", sandbox.commands.run("printf 'a\\nb\\n' | wc -l").stdout.strip())

    sorted_numbers = sandbox.commands.run(["sort", "-n"], stdin="3\n1\n2\n").raise_for_error()
    print("sorted:", sorted_numbers.stdout.split())

    handle = sandbox.commands.start("cat", stdin=True)
    handle.send_stdin("hello\n")
    handle.close_stdin()
    print("echoed:", handle.wait().stdout.strip())
