"""Results are whole numbers of a hundred thousand digits, and numbers with an exponent that no computer can write out."""

ANSWERS = {
    "middle": "def middle(times_s):\n    return 16 ** 99_000\n",
    "pairs": "from decimal import Decimal\n\n\ndef pairs(values, total):\n    return Decimal('1e999999999')\n",
    "nearest": "from fractions import Fraction\n\n\ndef nearest(values, target):\n    return Fraction(7**9000, 3**9000)\n",
    "primes": "PRIMES = [16**99_000] * 3\nCOUNT = -PRIMES[0]\n",
}
TELLS = "expected|does not hold"
