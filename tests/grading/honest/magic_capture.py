"""An answer stands in a cell that captures its output."""

ANSWERS = {"primes": "%%capture told\nprint('quiet')\nPRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nCOUNT = 10\n"}
