"""AP-04: Guess keys.

Claim: A key has 160 random bits, so guessing is hopeless at any rate; wrong guesses cost the server little.
Technique: Hundreds of guesses, also near a real key, while another session is served.
Source: -
Tiers: jail bounded
"""


def outside(trial):
    from concurrent.futures import ThreadPoolExecutor
    from secrets import token_hex

    from harness.api import Api

    def guess(number):
        key = trial.api.key[:-1] + "0123456789abcdef"[number % 16] if number < 16 else "silica_" + token_hex(20)
        return 401 if key == trial.api.key else Api(trial.server.address, key, trial.server.tokens).call("GET", "/v1/stats").status

    with ThreadPoolExecutor(4) as pool:
        statuses = set(pool.map(guess, range(1000 if trial.long else 300)))
    trial.tried(300)
    trial.check(statuses <= {401, 429}, f"statuses: {statuses}")
    trial.check(len(trial.api.key) == 47, "the key's length")
