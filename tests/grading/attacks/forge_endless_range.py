"""The answer is a range of two thousand million numbers, which is short to send. The check would make a list of it."""

ANSWERS = {"primes": "PRIMES = range(2 * 10**9)\nCOUNT = 10\n"}
TELLS = "range|too many|too long"
