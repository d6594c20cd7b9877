"""The environment and the command lines of all processes are searched for the course's folder and for secrets."""

ANSWERS = {
    "primes": """import os
from pathlib import Path

texts = [repr(dict(os.environ))]
for pid in os.listdir("/proc"):
    for name in ("environ", "cmdline"):
        try:
            texts.append(Path("/proc", pid, name).read_bytes().decode(errors="replace"))
        except OSError:
            pass
if any(word in text for text in texts for word in ("@COURSE@", "@OUTSIDE@", "TOKEN=", "gradebook")):
    exec('''@WIN@''')
""",
}
TELLS = "not defined"
