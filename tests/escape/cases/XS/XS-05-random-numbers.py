"""XS-05: Know a sibling's random numbers.

Claim: No generator of two siblings gives the same numbers.
Technique: Draws from random, numpy's global and new generators, df.sample, uuid, secrets, tempfile and scipy in many siblings.
Source: measured: numpy's global state and generators made before a fork are the same without care
Tiers: jail contained
"""

TEMPLATE = "code-interpreter"

DRAW = """
import random, uuid, secrets, tempfile, os, json, ssl, multiprocessing.process as mp
import numpy as np, pandas as pd
print(json.dumps({
 'random': random.random(), 'gauss': random.gauss(0, 1), 'new Random': random.Random().random(),
 'numpy': float(np.random.rand()), 'numpy normal': float(np.random.standard_normal()), 'default_rng': float(np.random.default_rng().random()),
 'sample': [int(x) for x in pd.DataFrame({'a': range(10**6)}).sample(3).a], 'permutation': [int(x) for x in np.random.permutation(10**6)[:3]],
 'uuid1': str(uuid.uuid1()), 'uuid4': str(uuid.uuid4()), 'node': uuid.getnode(), 'secrets': secrets.token_hex(8), 'tempfile': tempfile.mktemp(),
 'urandom': os.urandom(8).hex(), 'ssl': ssl.RAND_bytes(8).hex(), 'authkey': mp.current_process().authkey.hex() if hasattr(mp.current_process().authkey, 'hex') else 0,
 'system': random.SystemRandom().random(), 'bytes': np.random.bytes(8).hex(), 'seed': int(np.random.SeedSequence().entropy % 2**60)}))
"""


def outside(trial):
    import json

    count = 100 if trial.long else 12
    draws = []
    for _ in range(count):
        box = trial.api.create(template="code-interpreter")["id"]
        draws.append(json.loads(trial.ask(DRAW, box)))
        trial.api.delete(box)
        trial.tried()
    same = [name for name in draws[0] if len({str(draw[name]) for draw in draws}) < count]
    trial.equal(same, [], "what siblings have in common")
