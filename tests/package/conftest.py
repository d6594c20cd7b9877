"""What tests of state, logbook, records and predictions share: a folder of their own."""

from pathlib import Path

import pytest

from rooflab import logbook, prediction, records, state


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Rooflab folder that exists, a fresh process's memory, and no unit begun."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("ROOFLAB_HOME", str(folder))
    monkeypatch.delenv("ROOFLAB_LOGBOOK", raising=False)
    forget(monkeypatch)
    monkeypatch.setattr(logbook, "_unit", "s1_measurement/u1_step_cost")
    monkeypatch.setattr(logbook, "_run", {})
    monkeypatch.setattr(prediction, "_asked", {})
    records._load.cache_clear()
    return folder


@pytest.fixture
def unwritable(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Rooflab folder that nobody can make, not even root: a file stands in its way."""
    (home / "file").write_text("in the way")
    monkeypatch.setenv("ROOFLAB_HOME", str(home / "file" / "rooflab"))
    return home / "file" / "rooflab"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a restart of the process forgets."""
    monkeypatch.setattr(state, "_values", {})
    monkeypatch.setattr(state, "_lines", {})
    monkeypatch.setattr(state, "_told", False)


@pytest.fixture
def restart(monkeypatch: pytest.MonkeyPatch):
    """A function that forgets everything in memory, as a new kernel would."""

    def again() -> None:
        forget(monkeypatch)
        monkeypatch.setattr(prediction, "_asked", {})

    return again
