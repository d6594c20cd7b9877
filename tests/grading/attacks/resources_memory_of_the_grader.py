"""Millions of small objects are short to send, and take gigabytes once the grader has read them."""

ANSWERS = {
    "primes": """@SPEAK@

import rooflab.grading.guest as guest

def names(self, wanted):
    raw(b'[{"kind":"done"},[' + b",".join([b'{"a":1}'] * 7_900_000) + b"]]")

guest._Guest.names = names
PRIMES, COUNT = [], 0
""",
}
TELLS = "more memory than there is|longer than|too many"
