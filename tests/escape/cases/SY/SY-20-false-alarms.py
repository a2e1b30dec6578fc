"""SY-20: Do ordinary work, often.

Claim: No honest program is stopped by the filter.
Technique: pandas, a figure, a subprocess, threads and sqlite, in many sandboxes one after the other and beside each other.
Source: a sandbox that kills on surprise lost one run in a thousand
Tiers: jail works
"""

TEMPLATE = "code-interpreter"

WORK = """
import pandas as pd, matplotlib.pyplot as plt, subprocess, sqlite3, threading, tempfile, json
frame = pd.DataFrame({'a': range(100)}); frame.to_csv('x.csv'); total = int(pd.read_csv('x.csv').a.sum())
plt.plot([1, 2]); plt.savefig('x.png'); plt.close('all')
said = subprocess.run('echo hello | tr a-z A-Z', shell=True, capture_output=True, text=True).stdout.strip()
base = sqlite3.connect('x.db'); base.execute('create table t (a)'); base.execute('insert into t values (7)'); base.commit()
t = threading.Thread(target=lambda: None); t.start(); t.join()
print(total, said, base.execute('select a from t').fetchone()[0])
"""


def outside(trial):
    from concurrent.futures import ThreadPoolExecutor

    def once(_):
        box = trial.api.create(template="code-interpreter")["id"]
        cell = trial.api.cell(box, WORK, timeout_seconds=60)
        trial.api.delete(box)
        return cell["outcome"], cell["stdout"].strip(), str(cell["error"])[:300]

    rounds, parallel = (1000, 100) if trial.long else (3, 4)
    ends = [once(0) for _ in range(rounds)]
    with ThreadPoolExecutor(4) as pool:
        ends += pool.map(once, range(parallel))
    trial.tried(len(ends))
    wrong = [end for end in ends if end[:2] != ("ok", "4950 HELLO 7")]
    trial.check(not wrong, f"{len(wrong)} of {len(ends)} runs went wrong: {wrong[:2]}")
