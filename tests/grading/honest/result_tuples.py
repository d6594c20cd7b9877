"""Results are tuples where the lab's checks take them for lists."""

ANSWERS = {
    "iterate": "def iterate(f, x, n):\n    found = (x,)\n    for _ in range(n):\n        found += (f(found[-1]),)\n"
    "    return found\n",
    "primes": "PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)\nCOUNT = len(PRIMES)\n",
}
