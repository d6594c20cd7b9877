"""The logging module is set up and used at all levels."""

ANSWERS = {
    "pairs": """import logging

logging.basicConfig(level=logging.DEBUG)
log = logging.getLogger("pairs")


def pairs(values, total):
    log.debug("%d values", len(values))
    found = sum(a + b == total for k, a in enumerate(values) for b in values[k + 1 :])
    log.error("found %d", found)
    return found
""",
}
