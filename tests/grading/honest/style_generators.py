"""A function is a generator, another works with one."""

ANSWERS = {
    "iterate": """from itertools import accumulate, repeat


def iterate(f, x, n):
    yield from accumulate(repeat(x, n + 1), lambda last, _: f(last))
""",
    "primes": """def sieve(numbers):
    numbers = list(numbers)
    while numbers:
        yield (first := numbers[0])
        numbers = [n for n in numbers if n % first]


PRIMES = [*sieve(range(2, 30))]
COUNT = sum(1 for _ in sieve(range(2, 30)))
""",
}
