"""An answer's source is nested a hundred thousand brackets deep. Reading it would crash the grader's parser."""

ANSWERS = {"primes": "PRIMES = " + "[" * 100_000 + "]" * 100_000 + "\n"}
SOLVED = True
WORTH = 19
TELLS = "could not be run"
