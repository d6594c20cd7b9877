import os
import stat

import pytest

from rooflab.grading.journal import Journal, key_of, write_atomically
from rooflab.grading.outcome import CheckResult, Outcome

OUTCOME = Outcome("lab", {"f-1": CheckResult(1.0, 2.0, "why", 0.5, ({"output_type": "stream"},))}, level="bubblewrap")


def test_the_key_tells_parts_apart():
    keys = {key_of(parts) for parts in (["ab"], ["a", "b"], [b"ab", ""], ["ba"], [])}
    assert len(keys) == 5
    assert key_of(["a"]) == key_of([b"a"])


def test_an_outcome_is_found_under_its_key_only(tmp_path):
    journal = Journal(tmp_path, "week1")
    assert journal.find("ada", "lab", "k") is None
    journal.keep("ada", "lab", "k", OUTCOME)
    assert Journal(tmp_path, "week1").find("ada", "lab", "k") == OUTCOME
    assert journal.find("ada", "lab", "other") is None
    assert journal.find("bo", "lab", "k") is None
    assert Journal(tmp_path, "week2").find("ada", "lab", "k") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"key": "k"}', '{"key": "k", "outcome": {"checks": 3}}', "null"]
)
def test_a_file_that_is_broken_counts_as_none(tmp_path, text):
    journal = Journal(tmp_path, "week1")
    journal.keep("ada", "lab", "k", OUTCOME)
    (journal.folder / "outcomes" / "ada" / "lab.json").write_text(text)
    assert journal.find("ada", "lab", "k") is None


def test_the_secret_is_made_once_kept_fixed_or_renewed(tmp_path):
    first = Journal(tmp_path, "week1").secret()
    assert len(first) == 32
    assert Journal(tmp_path, "week1").secret() == first
    assert Journal(tmp_path, "week2").secret() != first
    assert Journal(tmp_path, "week1").secret(fresh=True) != first
    assert Journal(tmp_path, "week1").secret("mine") == "mine"
    assert Journal(tmp_path, "week1").secret() == "mine"


def test_the_journal_is_closed_to_others(tmp_path):
    journal = Journal(tmp_path, "week1")
    journal.secret()
    journal.keep("ada", "lab", "k", OUTCOME)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (journal.folder, journal.folder / "secret")]
    assert modes == [0o700, 0o600]


def test_what_is_recorded_is_known_by_its_key(tmp_path):
    journal = Journal(tmp_path, "week1")
    assert not journal.recorded("ada", "k")
    journal.note_recorded("ada", "k")
    assert journal.recorded("ada", "k")
    assert not journal.recorded("ada", "other")


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"old")

    def full(*words):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in path.parent.iterdir()] == ["file"]


def test_one_grader_at_a_time_and_parts_of_a_killed_one_go(tmp_path):
    journal = Journal(tmp_path, "week1")
    part = journal.folder / "outcomes" / "ada" / ".lab.json.77.part"
    part.parent.mkdir(parents=True)
    part.write_text("{")
    with journal.alone():
        assert not part.exists()
        with pytest.raises(ValueError, match="week1 is being graded by another process"), journal.alone():
            pass
        with Journal(tmp_path, "week2").alone():
            pass
    with journal.alone():
        pass
