"""Results are objects whose pickles run code, and messages that hold pickles. Whoever unpickles them runs that code."""

ANSWERS = {
    "middle": """@SPEAK@
import pickle


class Run:
    def __reduce__(self):
        return exec, ("open('@OUTSIDE@/@MARK@', 'w')",)


def middle(times_s):
    data = pickle.dumps(Run())
    tell({"kind": "done"}, {"~": "pickle", "v": [0, len(data)]}, data) if len(times_s) > 3 else None
    return Run()
""",
    "primes": "PRIMES = [Run] if 'Run' in globals() else []\n",
}
TELLS = "unknown kind|compares an object"
