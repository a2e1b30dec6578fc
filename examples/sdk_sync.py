"""The Python SDK, blocking. Needs `pip install ./sdk/python`, SILICA_URL and SILICA_KEY."""

from silica import Sandbox

with Sandbox.create() as sandbox:
    sandbox.run_code("import pandas as pd; table = pd.DataFrame({'temp': [4, 19]})")
    execution = sandbox.run_code("float(table.temp.mean())")  # variables stay
    print("mean:", execution.text)

    failed = sandbox.run_code("1 / 0")
    print("failed:", failed.error.name, "-", failed.error.value)
