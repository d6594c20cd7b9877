"""The class is a dataclass that inherits from another, with properties and class attributes."""

ANSWERS = {
    "account": """from dataclasses import dataclass, field


@dataclass
class Ledger:
    start: float = 0
    changes: list = field(default_factory=list)

    @property
    def balance(self):
        return self.start + sum(self.changes)

    def __len__(self):
        return len(self.changes)


@dataclass(repr=False)
class Account(Ledger):
    opened = 0

    def __post_init__(self):
        type(self).opened += 1

    def deposit(self, amount):
        self.changes.append(amount)

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError(self.balance)
        self.changes.append(-amount)
""",
}
