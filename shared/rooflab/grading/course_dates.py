"""When is an assignment due? A date as nbgrader takes it, always kept in UTC.

>>> parse_due("2026-12-24 18:00 Europe/Berlin")
datetime.datetime(2026, 12, 24, 17, 0)
>>> in_words(parse_due("2026-12-24T18:00+01:00")), in_words(parse_due("2026-12-24 18:00"))
('2026-12-24 17:00 UTC', '2026-12-24 18:00 UTC')
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["in_words", "parse_due"]

_FORM = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:[T ](?P<time>\d\d:\d\d(?::\d\d)?))?(?P<zone>Z|[-+]\d\d:?\d\d| [\w/+-]+)?"
)


def parse_due(text: str) -> datetime:
    """Read a due date; returns it in UTC, without a zone, as nbgrader's gradebook keeps it.

    Args:
        text: ``2026-12-24T18:00``, which is UTC as everywhere in nbgrader; with an offset ``2026-12-24T18:00+01:00``;
            or with the name of a zone, ``2026-12-24 18:00 Europe/Berlin``.

    Raises:
        ValueError: it is no such date.
    """
    match = _FORM.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        zone = (match["zone"] or "Z").strip()
        name = zone if zone == "Z" or zone[0] in "+-" else ""
        moment = datetime.fromisoformat(f"{match['date']}T{match['time'] or '00:00'}{name}")
        if not name:
            moment = moment.replace(tzinfo=ZoneInfo(zone))
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise ValueError(
            f"{text!r} is no date: write 2026-12-24T18:00 for UTC, 2026-12-24T18:00+01:00, or "
            "'2026-12-24 18:00 Europe/Berlin'."
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None)


def in_words(due: datetime | None) -> str:
    """Write a date of the gradebook."""
    return "no due date" if due is None else f"{due:%Y-%m-%d %H:%M} UTC"
