"""Open files are sent over the connection, as Unix allows. They would use up the grader's descriptors."""

ANSWERS = {
    "middle": """@SPEAK@
import socket


def middle(times_s):
    sock = channel().sock
    file = open("/dev/null")
    for _ in range(200):
        socket.send_fds(sock, [b"\\0"], [file.fileno()] * 200)
    return 2.0
""",
}
TELLS = "no message|too long|answer|refused"
