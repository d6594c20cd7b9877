"""Asked for the names of the answers, the student's process tells others too: the checks' own, and built-in ones."""

ANSWERS = {
    "primes": """@SPEAK@
import sys


def forge():
    guest = next(o for o in __import__("gc").get_objects() if type(o).__name__ == "_Guest")
    original = guest.reply

    def reply(head, value=None):
        if isinstance(value, dict):
            value = dict.fromkeys([*value, "check", "np", "sum", "sorted", "ValueError", "__builtins__", "TIMES_S"], forge)
        original(head, value)

    guest.reply = reply


forge()
""",
}
TELLS = "does not hold|not defined|expected|answer"
