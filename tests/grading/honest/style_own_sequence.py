"""The result is an object of a class of the student's own, which has a length and items and can be iterated."""

ANSWERS = {
    "iterate": """class Orbit:
    def __init__(self, f, x, n):
        self.found = [x]
        for _ in range(n):
            self.found.append(f(self.found[-1]))

    def __getitem__(self, key):
        return self.found[key]


iterate = Orbit
""",
    "primes": """class Numbers:
    def __iter__(self):
        return iter([2, 3, 5, 7, 11, 13, 17, 19, 23, 29])

    def __getitem__(self, key):
        return list(self)[key]

    def __len__(self):
        return 10


PRIMES = Numbers()
COUNT = len(PRIMES)
""",
}
