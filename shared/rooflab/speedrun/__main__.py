"""`python -m rooflab.speedrun`, which torchrun starts once for each rank: the same as `rooflab speedrun`."""

import os
import sys

from ..cli import main
from .ranks import leave

if __name__ == "__main__":
    code = main(["speedrun", *sys.argv[1:]])
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        leave(code)
    sys.exit(code)
