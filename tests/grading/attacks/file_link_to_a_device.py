"""The notebook is a link to a device without end, and the file beside it a link to the password file."""


def hand_in(notebook):
    return {
        "arena.ipynb": lambda path: path.symlink_to("/dev/zero"),
        "timestamp.txt": lambda path: path.symlink_to("/etc/passwd"),
    }


TELLS = "link"
