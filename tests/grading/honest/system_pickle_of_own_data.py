"""The student's own data go through pickle, json and copy."""

ANSWERS = {
    "account": """import copy
import json
import pickle


class Account:
    def __init__(self, balance=0):
        self.state = pickle.dumps({"balance": balance, "changes": []})

    @property
    def balance(self):
        return json.loads(json.dumps(pickle.loads(self.state)))["balance"]

    def deposit(self, amount):
        state = copy.deepcopy(pickle.loads(self.state))
        state["balance"] += amount
        state["changes"].append(amount)
        self.state = pickle.dumps(state)

    def withdraw(self, amount):
        if self.balance < amount:
            raise ValueError
        self.deposit(-amount)

    def __len__(self):
        return len(pickle.loads(self.state)["changes"])
""",
}
