"""A thread calls back without end, and never waits for an answer. The grader would serve it beyond every limit."""

ANSWERS = {
    "iterate": """@SPEAK@
import threading


def iterate(f, x, n):
    def drain():
        sock = channel().sock
        sock.setblocking(True)
        while sock.recv(2**16):
            pass

    threading.Thread(target=drain, daemon=True).start()
    argument = "x" * 2**20
    while True:
        tell({"kind": "callback", "number": 0},
             {"~": "tuple", "v": [{"~": "tuple", "v": [argument]}, {"~": "dict", "v": []}]})
""",
}
TELLS = "took longer|too often"
