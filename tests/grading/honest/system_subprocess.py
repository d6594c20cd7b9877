"""A process is started in a cell and waited for."""

ANSWERS = {
    "primes": """import subprocess
import sys

code = "print(*[n for n in range(2, 30) if all(n % d for d in range(2, n))])"
told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
PRIMES = [int(word) for word in told.stdout.split()]
COUNT = len(PRIMES)
""",
}
