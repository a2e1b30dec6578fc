"""FI-06: Leave a FIFO where a file is expected.

Claim: The host never waits on what it opens.
Technique: FIFOs as files to be read, written, moved and archived, also behind the name of an output.
Source: a plain open of a FIFO blocks
Tiers: jail contained
"""


def inside():
    import os

    os.mkfifo("out.csv")
    os.mkdir("folder")
    os.mkfifo("folder/pipe")
    attack.say("pipes", 2)


def outside(trial):
    api, box = trial.api, trial.id
    answer = api.get(box, "out.csv", patience=20)
    trial.equal((answer.status, answer.code), (422, "refused"), "reading")
    trial.equal(api.call("GET", api.files(box, "/archive", path="folder"), patience=20).status, 200, "an archive with it")
    written = api.call("PUT", api.files(box, "/content", path="out.csv"), b"x", patience=20)
    trial.check(written.status in (200, 201, 422), f"writing: {written.status}")
    run = {"code": "import os; os.mkfifo('o')", "outputs": ["/workspace/o"]}
    trial.equal(api.call("POST", "/v1/run", run, patience=60).status, 200, "as a run's output")
