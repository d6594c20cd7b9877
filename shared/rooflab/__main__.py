"""Run the command line: ``rooflab``, or ``python -m rooflab``."""

import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Load the command line and run it; a Ctrl-C while it loads is no failure to be traced."""
    try:
        from .cli import main as run

        return run()
    except KeyboardInterrupt:
        print("rooflab: Stopped by Ctrl-C.", file=sys.stderr)
        return 130
    finally:
        # What was to be done is done and the exit code is known: a Ctrl-C while the interpreter goes changes neither.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
