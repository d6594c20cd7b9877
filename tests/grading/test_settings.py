import pytest

from rooflab.grading.sandbox import Limits
from rooflab.grading.settings import limits_from, read_limits


def test_the_defaults_where_there_is_no_file(tmp_path):
    assert read_limits(tmp_path, "week1") == Limits()


def test_an_assignment_overrides_what_holds_for_all(tmp_path):
    (tmp_path / "grading.toml").write_text(
        "[limits]\ncall_s = 2\nmemory_mb = 512\nfile_mb = 1.5\n[assignment.week2]\ncall_s = 7.5\nprocesses = 8\n"
    )
    assert read_limits(tmp_path, "week1") == Limits(call_s=2.0, memory_bytes=2**29, file_bytes=3 * 2**19)
    week2 = read_limits(tmp_path, "week2")
    assert week2 == Limits(call_s=7.5, memory_bytes=2**29, file_bytes=3 * 2**19, processes=8)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[limits]\ncall = 2", "no limit 'call'; expected one of call_s, total_s"),
        ("[limits]\ncall_s = 0", "call_s has to be a number above zero; found 0"),
        ("[limits]\ncall_s = -1", "above zero"),
        ("[limits]\ncall_s = true", "found True"),
        ("[limits]\ncall_s = '2'", "found '2'"),
        ("[limits]\ncall_s = nan", "above zero"),
        ("[limit]\ncall_s = 2", r"unknown section \[limit\]"),
        ("[assignment.week1]\nmemory = 2", "no limit 'memory'"),
        ("limits = ", "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, text, why):
    (tmp_path / "grading.toml").write_text(text)
    with pytest.raises(ValueError, match=why) as raised:
        read_limits(tmp_path, "week1")
    assert str(tmp_path / "grading.toml") in str(raised.value)


@pytest.mark.parametrize("told", [{"limits": 3}, {"assignment": {"a": 3}}, {"assignment": 3}])
def test_a_section_that_is_none_is_told(told):
    with pytest.raises(ValueError, match=r"has to be a section"):
        limits_from(told, "a")


def test_infinite_limits_are_none():
    with pytest.raises(ValueError, match="above zero"):
        limits_from({"limits": {"memory_mb": float("inf")}}, "a")
