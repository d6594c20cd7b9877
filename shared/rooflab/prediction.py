"""What did you expect?

A reader commits a guess *before* the measurement; ``report`` then sets guess, model, measurement and the recorded
device side by side. Run headless nobody can guess: the model's own answer stands in, and nothing blocks.

>>> predict("a copy of 1 GB takes", unit="ms", model=0.25)
Prediction: a copy of 1 GB takes (ms). Nobody is here to guess; the model's own answer stands in.
>>> report("a copy of 1 GB takes", 0.26)
a copy of 1 GB takes
guess  |  model | measured | measured / model
250 ms | 250 ms |   260 ms |             1.04
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import state
from .display import escape, in_notebook, is_headless, say, show_text
from .logbook import current_unit, log
from .measurement import Measurement, Ratio
from .records import recorded, reference, short_name
from .tables import render_html, render_text
from .units import format_si, parse_quantity, unit_of

__all__ = ["Prediction", "UnknownQuestion", "commit", "predict", "prediction", "report"]

GUESSES = "guesses.json"
_asked: dict[str, Prediction] = {}


class UnknownQuestion(KeyError):
    """A question that no predict cell asked."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the sentence in quotes


@dataclass
class Prediction:
    """One question, and what has been answered so far; numbers in SI units of ``unit``."""

    question: str
    unit: str
    model: float | None
    guess: float | None = None
    stand_in: bool = False  # the guess is the model's own, because nobody was there
    earlier: bool = False  # the guess is one of an earlier run
    out_of: int | None = None  # it is how many of so many
    measured: float | None = None

    @property
    def symbol(self) -> str:
        """The unit without its prefix, as answers are shown: "ms" becomes "s"; percent stay percent."""
        unit = unit_of(self.unit)
        return unit.symbol if unit.symbol == "%" else unit.base if self.unit else ""


def predict(
    question: str, *, unit: str = "", model: float | Callable[[], float] | None, out_of: int | None = None
) -> None:
    """Ask the reader for a guess before the measuring cell.

    Args:
        question: reads on into the answer: "the largest product takes … times the smallest".
        unit: what a bare number means: "ms", "GB/s", "x", or "" for a plain number. Other prefixes may be typed.
        model: the model's answer in SI units, not shown before ``report``; None where nothing can be derived.
        out_of: the question is how many of so many: a guess is a whole number from 0 to this. Others are above zero.

    Raises:
        TypeError: the question is no text, or the model is no number.
        ValueError: the unit is none, or could be two ("Gb").
    """
    if not (isinstance(question, str) and question.strip()):
        raise TypeError(f"expected the question as text, such as 'a copy of 1 GB takes'; found {question!r}")
    unit_of(unit)
    value = model() if callable(model) else model
    number = None if value is None else _number(value, "the model's answer as a number in SI units, or None")
    asked = _asked[question] = Prediction(question, unit, number, out_of=out_of)
    if is_headless():
        asked.guess, asked.stand_in = asked.model, True
        stand_in = "no model stands in" if value is None else "the model's own answer stands in"
        show_text(f"Prediction: {question}{unit and f' ({unit})'}. Nobody is here to guess; {stand_in}.")
        return
    kept = state.read_json(GUESSES, {}).get(_key(question))
    # A file that was damaged or edited may hold anything; only a finite number is a guess.
    asked.guess = kept if isinstance(kept, float) and math.isfinite(kept) else None
    asked.earlier = asked.guess is not None
    _show_form(asked)


def _number(value: Any, what: str) -> float:
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        return (
            float(value) if abs(value) < 1e308 or isinstance(value, float) else math.inf
        )  # a whole number may be huge
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item") and not isinstance(value.item(), (bool, complex)):
        return float(value.item())  # a scalar of NumPy, torch or JAX
    raise TypeError(f"expected {what}; found {type(value).__name__}")


def _key(question: str) -> str:
    return f"{current_unit()}: {question}"


def prediction(question: str) -> Prediction:
    """What has been answered to a question so far.

    Raises:
        UnknownQuestion: it was never asked.
    """
    if question not in _asked:
        asked = ", ".join(map(repr, _asked)) or "none"
        raise UnknownQuestion(f"Nobody asked {question!r}: run its predict(...) cell first. Asked so far: {asked}.")
    return _asked[question]


def commit(question: str, text: str) -> str:
    """Take a typed guess; returns the sentence to show.

    A guess cannot be changed once its measurement is on the table.
    """
    asked = prediction(question)
    if asked.measured is not None:
        return "The measurement is on the table; run the predict cell again to guess afresh."
    try:
        asked.guess = _possible(parse_quantity(text, unit=asked.unit), text.strip(), asked.out_of)
    except ValueError as error:
        sentence = f"{error}."
        stands = "" if asked.guess is None else f" Your guess of {format_si(asked.guess, asked.symbol)} stands."
        return sentence[0].upper() + sentence[1:] + stands
    asked.earlier = False
    state.update_json(GUESSES, lambda guesses: guesses.update({_key(question): asked.guess}))
    return f"Committed: {format_si(asked.guess, asked.symbol)}. Now measure."


def _possible(guess: float, text: str, out_of: int | None) -> float:
    """Refuse what no measurement could say."""
    if out_of is not None and not (0 <= guess <= out_of and guess == int(guess)):
        raise ValueError(f"expected a whole number from 0 to {out_of}; found {text!r}")
    if out_of is None and guess <= 0:
        raise ValueError(f"expected a number above zero; found {text!r}")
    return guess


def _show_form(asked: Prediction) -> None:
    """A question, a field and a button."""
    import ipywidgets
    from IPython.display import display

    hint = {"": "a number", "x": "how many times, such as 3"}.get(asked.unit, f"such as 3 {asked.unit}")
    title = ipywidgets.HTML(f"<b>Your prediction:</b> {escape(asked.question)}")
    # Without continuous updates the value changes when Enter is pressed, in ipywidgets 7 and 8 alike.
    field = ipywidgets.Text(placeholder=hint, continuous_update=False, layout={"width": "14em"})
    button = ipywidgets.Button(
        description="Commit", button_style="primary", layout={"width": "7em", "min_width": "7em"}
    )
    status = ipywidgets.HTML(
        "" if asked.guess is None else f"Last time you said {format_si(asked.guess, asked.symbol)}."
    )

    def on_commit(_: Any) -> None:
        status.value = escape(commit(asked.question, field.value))

    button.on_click(on_commit)
    field.observe(on_commit, names="value")
    display(ipywidgets.VBox([title, ipywidgets.HBox([field, button]), status]))


def report(question: str, measured: float | Ratio | Measurement, *, key: str = "") -> None:
    """Show guess, model, measurement and record of a question asked before, and log the measurement.

    Args:
        question: as given to ``predict``.
        measured: in SI units; of a ``Measurement`` its median; not-a-number if nothing came of it.
        key: where the record keeps it; default: the question.

    Raises:
        UnknownQuestion: no predict cell asked it.
        TypeError: what was measured is no number.
    """
    asked = prediction(question)
    median_s = measured.median_s if isinstance(measured, Measurement) else measured
    value = _number(median_s, "a number in SI units, or a Measurement")
    asked.measured = value
    key = key or question
    log(key, {"guess": None if asked.stand_in else asked.guess, "model": asked.model, "measured": value,
              "unit": asked.symbol})  # fmt: skip
    other = recorded(key)
    columns = {"guess": asked.guess, "model": asked.model, "measured": value}
    if isinstance(other, dict) and other.get("measured") is not None:
        columns[f"recorded ({_recorded_on()})"] = other["measured"]
    texts = {name: "–" if v is None or math.isnan(v) else format_si(v, asked.symbol) for name, v in columns.items()}
    comparable = asked.model and math.isfinite(asked.model) and not math.isnan(value)
    texts["measured / model"] = format_si(value / asked.model, "") if comparable and asked.model else "–"
    header, row = list(texts), list(texts.values())
    note = _verdict(asked, value)
    html = render_html(header, [row], caption=question) + (f"<p>{escape(note)}</p>" if note and in_notebook() else "")
    text = f"{question}\n{render_text(header, [row])}"
    show_text(text + (f"\n{note}" if note and in_notebook() else ""), html=html)
    if isinstance(measured, Measurement | Ratio) and measured.warning:
        say(measured.warning)


def _recorded_on() -> str:
    record = reference()
    return short_name(record) if record else ""


def _verdict(asked: Prediction, value: float) -> str:
    """One sentence on the guess; none when nobody guessed."""
    if asked.stand_in:
        return ""
    if asked.guess is None:
        return "No guess was committed before this measurement: a prediction made afterwards teaches nothing."
    if not (asked.guess > 0 and 0 < value < math.inf):
        return ""
    off, whose = max(asked.guess / value, value / asked.guess), "Your earlier guess" if asked.earlier else "Your guess"
    if off < 1.25:
        return f"{whose} is within {max(1, math.ceil(100 * (off - 1) - 1e-9))} % of the measurement."
    return f"{whose} is off by a factor of {off:,.0f}." if off >= 10 else f"{whose} is off by a factor of {off:.2g}."
