"""A function sorts the list that it was given, in place."""

ANSWERS = {
    "middle": """def middle(times_s):
    times_s.sort()
    if not times_s:
        raise ValueError
    while len(times_s) > 2:
        times_s.pop()
        times_s.pop(0)
    return sum(times_s) / len(times_s)
""",
    "primes": "PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nCOUNT = len(PRIMES)\nTIMES_S.sort()\n",
}
