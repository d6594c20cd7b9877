"""Files are written until the disk is full, large ones and many small ones, in every folder that can be written."""

ANSWERS = {
    "middle": """import os


def middle(times_s):
    for folder in (".", "/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~")):
        for number in range(3000):
            try:
                with open(f"{folder}/@MARK@-{number}", "wb") as file:
                    file.write(bytes(10**6))
            except OSError as error:
                print(error)
                break
    raise OSError("the disk is full, or so it seems")
""",
}
SOLVED = True
WORTH = 18
TELLS = "disk|took longer|memory|File|files held"
