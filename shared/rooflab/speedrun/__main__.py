"""`python -m rooflab.speedrun`, which torchrun starts once for each rank: the same as `rooflab speedrun`."""

import sys

from ..cli import main

if __name__ == "__main__":
    sys.exit(main(["speedrun", *sys.argv[1:]]))
