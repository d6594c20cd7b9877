"""Two hundred megabytes are printed on one line, and as much to the standard error. The notebook would hold them all."""

ANSWERS = {
    "primes": """import os
import sys

print("x" * 50_000_000, end="")
sys.stderr.write("y" * 50_000_000)
for _ in range(50):
    os.write(1, b"z" * 2_000_000)
    os.write(2, b"z" * 2_000_000)
PRIMES = [2, 3, 5]
COUNT = 3
""",
}
WORTH = 1
TELLS = "hidden check|does not hold|took longer"
