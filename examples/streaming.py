"""Output while the code runs, and a cell in the background. Needs SILICA_URL and SILICA_KEY."""

from silica import Done, Sandbox, Stdout

with Sandbox.create() as sandbox:
    sandbox.run_code(
        "import time\nfor n in range(3):\n    print('step', n)\n    time.sleep(0.1)",
        on_stdout=lambda text: print("heard:", text.strip()),
    )

    cell = sandbox.start_code("print('at work'); 6 * 7")
    for event in cell.events():
        match event:
            case Stdout(text=text):
                print("event:", text.strip())
            case Done(execution=execution):
                print("done:", execution.outcome, execution.text)
