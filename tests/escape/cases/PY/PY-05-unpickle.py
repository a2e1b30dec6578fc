"""PY-05: Have a pickle opened.

Claim: Only the code inside ever unpickles; the host never does.
Technique: Uploads pickles that run commands, moves, archives and lists them; then opens one inside.
Source: -
Tiers: jail contained
"""


def outside(trial):
    import pickle

    class Evil:
        def __reduce__(self):
            import os

            return os.system, (f"touch /tmp/pickled; cp /tmp/pickled {trial.host.told['tree']}/evil",)

    data = pickle.dumps(Evil())
    for name in ("x.pkl", "x.csv", "x.ipynb", "x.json", "x.joblib"):
        trial.equal(trial.api.put(trial.id, name, data).status, 201, name)
        trial.api.get(trial.id, name)
        trial.tried()
    trial.api.call("GET", trial.api.files(trial.id, "/archive", path="/workspace"))
    exists = "import os; print(os.path.exists('/tmp/pickled'))"
    trial.equal(trial.ask(exists), "False", "before it is opened")
    trial.ask("import pickle; pickle.load(open('x.pkl', 'rb')); None")
    trial.equal(trial.ask(exists), "True", "once it is opened, inside")
