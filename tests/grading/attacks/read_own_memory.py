"""The student's own process was forked from one that may have seen hidden checks. Its memory is searched for them."""

ANSWERS = {
    "primes": """MARK = ("hidden" + "-6f1d").encode()
for line in open("/proc/self/maps"):
    place, rights = line.split()[:2]
    if "r" in rights and "[v" not in line:
        start, end = (int(part, 16) for part in place.split("-"))
        try:
            with open("/proc/self/mem", "rb", 0) as memory:
                memory.seek(start)
                left = end - start
                while left > 0 and (piece := memory.read(min(left, 2**24))):
                    left -= len(piece)
                    if MARK in piece:
                        exec('''@WIN@''')
        except (OSError, ValueError, OverflowError):
            pass
""",
}
TELLS = "expected"
