"""The answer is a list nested a hundred thousand deep. Whatever walks through it by calling itself would crash."""

ANSWERS = {
    "primes": """PRIMES = []
for _ in range(100_000):
    PRIMES = [PRIMES]
COUNT = 10
""",
}
SOLVED = True
WORTH = 19
TELLS = "not defined"
