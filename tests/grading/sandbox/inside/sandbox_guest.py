"""What the tests of the sandbox run in it: code that comes over the channel, as a student's could."""

import json
import socket


def serve(descriptor, argument):
    """Run each piece of code; answer with its variable ``found`` or with what it raised."""
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rw") as lines:
        names = {"argument": argument, "channel": channel}
        for line in lines:
            names["found"] = None
            try:
                exec(json.loads(line), names)
                answer = repr(names["found"])
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"
            lines.write(json.dumps(answer) + "\n")
            lines.flush()


def end(descriptor, argument):
    """Run the argument and end."""
    exec(argument, {"channel": descriptor})
