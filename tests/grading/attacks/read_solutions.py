"""The instructor's notebook is opened in the course's folder, under each name that nbgrader uses. Its answers are run."""

ANSWERS = {
    "primes": """import json
from pathlib import Path

for path in Path("@COURSE@").rglob("*.ipynb"):
    for cell in json.loads(path.read_text())["cells"]:
        if "SOLUTION" in "".join(cell["source"]):
            exec('''@WIN@''')
""",
}
TELLS = "expected|not defined|No such file|Permission"
