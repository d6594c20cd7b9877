"""The file ends in the middle, as one that was copied only in part."""

import json


def hand_in(notebook):
    return json.dumps(notebook, indent=1)[:3000].encode()


TELLS = "broken"
