"""One answer is a source of ten megabytes, most of it a comment. The answer in it is right, but behind the limit."""

ANSWERS = {"primes": "# " + "x" * 10_000_000 + "\nPRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nCOUNT = 10\n"}
TELLS = "not defined|expected"
