"""Each answer to a call carries sixty megabytes of printed text, beyond the limits of the student's own process."""

ANSWERS = {
    "pairs": """@SPEAK@

def pairs(values, total):
    raw(b'[{"kind":"done","error":null,"printed":"' + b"x" * (60 * 2**20) + b'"},{"~":"tuple","v":[-1,null]}]')
""",
}
TELLS = "two pairs|answer"
