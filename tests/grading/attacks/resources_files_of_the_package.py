"""The installed package, the interpreter and the temporary folders are overwritten, for all that are graded later."""

ANSWERS = {
    "primes": """import os
import shutil
import sys

import rooflab

for path in (rooflab.check.__file__, np.__file__, os.__file__, sys.executable, "/etc/hostname", "/etc/passwd"):
    try:
        with open(path, "a") as file:
            file.write("")
        PRIMES, COUNT = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29], 10
    except OSError as error:
        print(path, error)
for name in ("sitecustomize.py", "usercustomize.py", "numpy.py"):
    for folder in sys.path:
        try:
            open(os.path.join(folder or ".", name + "@MARK@"), "w").close()
        except OSError:
            pass
""",
}
TELLS = "expected|not defined"
