"""Everything is imported from a module, as many tutorials do."""

ANSWERS = {
    "primes": "from math import *\n\nPRIMES = [n for n in range(2, 30) if factorial(n - 1) % n == n - 1]\n"
    "COUNT = int(sqrt(len(PRIMES) ** 2))\n",
    "normalize": "from numpy.linalg import *\n\n\ndef normalize(x):\n    return x / norm(x, 1, axis=1)[:, None]\n",
}
