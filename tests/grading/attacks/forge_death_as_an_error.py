"""Where a check wants an error, the process dies or hangs instead. The grader's own error would be taken for it."""

ANSWERS = {
    "middle": """import os


def middle(times_s):
    if not times_s:
        os._exit(1)
    return float(np.median(times_s))
""",
    "account": """class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount

    def withdraw(self, amount):
        while amount > self.balance:
            pass
        self.balance -= amount

    def __len__(self):
        return 1
""",
}
WORTH = 2  # the visible checks
TELLS = "stopped: It ended|stopped: it took longer"
