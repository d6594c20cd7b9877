"""The result is a list nested exactly as deep as can be sent, and one more, and a list that holds itself."""

ANSWERS = {
    "iterate": """def iterate(f, x, n):
    found = [x]
    for _ in range(96 + n % 4):
        found = [found]
    return found
""",
    "primes": "PRIMES = []\nPRIMES.append(PRIMES)\nCOUNT = [PRIMES]\n",
}
TELLS = "nested"
