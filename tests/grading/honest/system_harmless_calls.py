"""Harmless calls of the operating system: the process, the folder, the environment, the platform."""

ANSWERS = {
    "primes": """import os
import platform
import socket
import sys

print(os.getpid(), os.getcwd(), os.cpu_count(), platform.platform(), sys.version, os.environ.get("HOME"))
print(sorted(os.listdir(".")), socket.gethostname())
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
COUNT = len(PRIMES)
""",
}
