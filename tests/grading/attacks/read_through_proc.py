"""Links below /proc lead around closed folders: the root, the folder and the open files of every process."""

ANSWERS = {
    "primes": """import os

for pid in os.listdir("/proc"):
    for way in ("root@COURSE@", "cwd", "cwd/source", "cwd/../course"):
        try:
            if {"source", "gradebook.db", "nbgrader_config.py"} & set(os.listdir(f"/proc/{pid}/{way}")):
                exec('''@WIN@''')
        except OSError:
            pass
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{number}")
            if "@COURSE@" in target:
                exec('''@WIN@''')
    except OSError:
        pass
""",
}
TELLS = "not defined"
