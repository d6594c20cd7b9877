"""A check keeps what a function hands to its callback. Once it keeps as much as it may, anything more is too much."""

ANSWERS = {
    "iterate": """def iterate(f, x, n):
    if x == 1.0:
        for _ in range(8):
            f(np.zeros(31_000_000))
    return [1.0, 1.5, 2.0, 2.5]
""",
    "account": """import rooflab.grading.guest as guest

real = guest._Guest.names

def names(self, wanted):
    self.shell.user_ns["Account"] = np.zeros(31_000_000)
    real(self, wanted)

guest._Guest.names = names
class Account: pass
""",
}
TELLS = "more memory than there is|longer than|TypeError"
