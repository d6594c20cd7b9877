"""A helper is defined in one answer's cell and used in another's."""

ANSWERS = {
    "primes": """def is_prime(n):
    return n > 1 and all(n % d for d in range(2, n))


PRIMES = list(filter(is_prime, range(30)))
COUNT = sum(map(is_prime, range(30)))


def count_if(condition, values):
    return sum(1 for value in values if condition(value))
""",
    "pairs": """from itertools import combinations


def pairs(values, total):
    return count_if(lambda pair: sum(pair) == total, combinations(values, 2))
""",
}
