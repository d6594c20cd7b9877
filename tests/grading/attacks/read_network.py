"""The answers are asked for over the network: by name, at addresses, at this machine, and over sockets in memory."""

ANSWERS = {
    "primes": """import socket

for family, place in (
    (socket.AF_INET, ("127.0.0.1", 22)),
    (socket.AF_INET, ("192.0.2.1", 80)),
    (socket.AF_INET6, ("::1", 80)),
    (socket.AF_UNIX, "\\0arena"),
    (socket.AF_UNIX, "/run/dbus/system_bus_socket"),
):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(0.2)
            sock.connect(place)
            exec('''@WIN@''')
    except OSError as error:
        print(place, error)
socket.create_connection(("example.org", 80), 1)
""",
}
TELLS = "OSError|gaierror|not permitted|resolution|unreachable|PermissionError"
