"""Files in and out of a sandbox. Needs SILICA_URL and SILICA_KEY."""

from silica import Sandbox

with Sandbox.create() as sandbox:
    sandbox.files.write("temps.csv", "city,temp\nOslo,4\nRome,19\n")
    execution = sandbox.run_code(
        "import pandas as pd\n"
        "pd.read_csv('temps.csv').sort_values('temp', ascending=False).to_csv('sorted.csv', index=False)"
    )
    print("created:", execution.files.created)
    print("listed:", sorted(entry.name for entry in sandbox.files.list()))
    print("first:", sandbox.files.read("sorted.csv").splitlines()[1])
