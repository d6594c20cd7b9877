"""State on disks that are full, read-only, cut short or corrupt."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rooflab import state
from rooflab.locks import alone_in
from rooflab.state import append_line, atomic_write, read_json, read_lines, update_json, write_json


def test_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROOFLAB_HOME", raising=False)
    assert state.home() == tmp_path / ".cache" / "rooflab"
    monkeypatch.setenv("ROOFLAB_HOME", "~/mine")
    assert state.home() == tmp_path / "mine"


def test_json_round_trip_in_a_folder_that_was_not_there(home, restart):
    write_json("deep/er/value.json", {"a": [1, 2.5, None, "µ"]})
    restart()
    assert read_json("deep/er/value.json") == {"a": [1, 2.5, None, "µ"]}
    assert [path.name for path in (home / "deep" / "er").iterdir()] == ["value.json"]


def test_a_user_without_a_home(monkeypatch, capsys, restart):
    monkeypatch.setenv("ROOFLAB_HOME", "~nobody-has-this-name/rooflab")
    restart()
    write_json("a.json", 1)
    update_json("b.json", lambda value: value.update(b=2))
    assert (read_json("a.json"), read_json("b.json")) == (1, {"b": 2})
    assert capsys.readouterr().out.count("Rooflab cannot write to") == 1


def test_default_where_there_is_nothing(home):
    assert read_json("none.json") is None
    assert read_json("none.json", {"a": 1}) == {"a": 1}
    assert read_lines("none.jsonl") == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"\xff\xfe\x00", b"[1]", b"null", b"3", b"[" * 10**5])
def test_corrupt_json_is_as_if_it_were_not_there(home, content):
    (home / "value.json").write_bytes(content)
    assert read_json("value.json", {"a": 0}) == {"a": 0}
    write_json("value.json", {"a": 2})
    assert read_json("value.json", {"a": 0}) == {"a": 2}


class TestAtomic:
    def test_a_failing_write_leaves_the_old_file_and_no_other(self, home, monkeypatch):
        path = home / "file.txt"
        atomic_write(path, "old")

        def full(self, target):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(state.Path, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            atomic_write(path, "new")
        assert path.read_text() == "old"
        assert os.listdir(home) == ["file.txt"]

    def test_text_that_cannot_be_encoded_leaves_nothing(self, home):
        with pytest.raises(UnicodeEncodeError):
            atomic_write(home / "file.txt", "\ud800")
        assert os.listdir(home) == []

    def test_an_interrupted_write_leaves_nothing(self, home, monkeypatch):
        def interrupt(self, mode):
            raise KeyboardInterrupt

        monkeypatch.setattr(state.Path, "chmod", interrupt)
        with pytest.raises(KeyboardInterrupt):
            atomic_write(home / "file.txt", "text")
        assert os.listdir(home) == []

    def test_everyone_who_may_read_the_folder_may_read_the_file(self, home):
        atomic_write(home / "file.txt", "text")
        assert (home / "file.txt").stat().st_mode & 0o777 == 0o644

    def test_a_file_in_the_way_is_an_os_error(self, unwritable):
        with pytest.raises(OSError, match="file"):
            atomic_write(unwritable / "a.txt", "text")


class TestUnwritable:
    def test_everything_is_kept_in_memory_and_said_once(self, unwritable, capsys):
        write_json("a.json", {"a": 1})
        write_json("b.json", {"b": 1})
        append_line("log.jsonl", 1)
        append_line("log.jsonl", 2)
        assert read_json("a.json") == {"a": 1}
        assert read_json("b.json", {}) == {"b": 1}
        assert read_lines("log.jsonl") == [1, 2]
        said = capsys.readouterr().out
        assert said.count("Rooflab cannot write to") == 1
        assert said.count("\n") == 1
        assert str(unwritable) in said
        assert "Set ROOFLAB_HOME to a folder you can write to." in said
        assert not unwritable.exists()

    def test_memory_belongs_to_its_folder(self, unwritable, monkeypatch, home, capsys):
        write_json("a.json", {"a": 1})
        monkeypatch.setenv("ROOFLAB_HOME", str(home))
        assert read_json("a.json") is None

    def test_a_disk_that_fills_up(self, home, monkeypatch, capsys):
        """What was written before stays on disk, what came after is read from memory, and a later write heals it."""
        write_json("a.json", 1)
        append_line("log.jsonl", "before")

        def full(path, text):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(state, "atomic_write", full)
            broken.setattr(state.Path, "open", full)
            write_json("a.json", 2)
            append_line("log.jsonl", "after")
        assert read_json("a.json") == 2
        assert json.loads((home / "a.json").read_text()) == 1
        assert read_lines("log.jsonl") == ["before", "after"]
        write_json("a.json", 3)
        assert read_json("a.json") == json.loads((home / "a.json").read_text()) == 3
        assert "No space left on device" in capsys.readouterr().out


class TestLog:
    def test_lines(self, home):
        for value in ({"b": 1, "a": "ü"}, [1, 2], "text\nof two lines", None):
            append_line("log.jsonl", value)
        assert read_lines("log.jsonl") == [{"a": "ü", "b": 1}, [1, 2], "text\nof two lines", None]
        assert (home / "log.jsonl").read_text().count("\n") == 4

    @pytest.mark.parametrize("cut", [b'{"b": ', b'{"b": "\xc3', b"\x00\x00", b"[" * 10**5])
    def test_a_last_line_cut_short_takes_no_other_with_it(self, home, cut):
        append_line("log.jsonl", {"a": 1})
        with (home / "log.jsonl").open("ab") as file:
            file.write(cut)
        assert read_lines("log.jsonl") == [{"a": 1}]
        append_line("log.jsonl", {"c": 3})
        append_line("log.jsonl", {"d": 4})
        assert read_lines("log.jsonl") == [{"a": 1}, {"c": 3}, {"d": 4}]

    def test_threads(self, home):
        threads = [threading.Thread(target=append_line, args=("log.jsonl", i)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(read_lines("log.jsonl")) == list(range(20))


SHARED = Path(state.__file__).resolve().parents[1]
UPDATES = """
import functools, sys
sys.path.insert(0, sys.argv[1])
from rooflab import state
from rooflab.state import update_json
# Who has waited for too long goes on without the lock, and on a slow machine others may have it for seconds.
state.alone_in = functools.partial(state.alone_in, patience_s=60.0)
print("ready", flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[3])):
    update_json("shared.json", lambda value: value.update({f"{sys.argv[2]}-{i}": i}))
"""
HOLDS = """
import sys, pathlib
sys.path.insert(0, sys.argv[1])
from rooflab.locks import alone_in
with alone_in(pathlib.Path(sys.argv[2])) as held:
    print(held, flush=True)
    sys.stdin.readline()
"""


def started(code: str, *arguments: object) -> subprocess.Popen:
    """A process that has imported what it needs and waits for a line."""
    process = subprocess.Popen([sys.executable, "-c", code, str(SHARED), *map(str, arguments)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    process.first = process.stdout.readline().strip()
    return process


class TestUpdates:
    def test_of_several_processes_at_once_none_is_lost(self, home):
        processes = [started(UPDATES, name, 25) for name in "abcd"]
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            _, errors = process.communicate(timeout=200)
            assert (process.returncode, errors) == (0, "")
        assert set(read_json("shared.json")) == {f"{name}-{i}" for name in "abcd" for i in range(25)}
        assert os.listdir(home) == ["shared.json"]

    def test_of_several_threads_at_once_none_is_lost(self, home):
        names = [f"t{i}" for i in range(12)]
        threads = [
            threading.Thread(target=update_json, args=("a.json", lambda v, n=n: v.update({n: 1}))) for n in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(read_json("a.json")) == set(names)

    def test_in_a_folder_that_cannot_be_written(self, unwritable, capsys):
        for i in range(2):
            update_json("a.json", lambda value, i=i: value.update({str(i): i}))
        assert read_json("a.json") == {"0": 0, "1": 1}
        assert capsys.readouterr().out.count("Rooflab cannot write to") == 1

    def test_a_change_that_fails_leaves_the_file_and_no_lock(self, home):
        update_json("a.json", lambda value: value.update(a=1))
        with pytest.raises(ZeroDivisionError):
            update_json("a.json", lambda value: 1 / 0)
        update_json("a.json", lambda value: value.update(b=2))
        assert read_json("a.json") == {"a": 1, "b": 2}

    def test_nobody_waits_for_ever(self, home):
        holder = started(HOLDS, home)
        try:
            assert holder.first == "True"
            with alone_in(home, patience_s=0.05) as held:
                assert not held
            assert holder.poll() is None, "who holds it was not waited for"
        finally:
            holder.kill()
            holder.communicate()
        with alone_in(home, patience_s=60.0) as held:
            assert held, "a killed process leaves no lock behind"

    def test_where_a_folder_cannot_be_locked_a_file_in_it_is(self, home, monkeypatch):
        import fcntl

        real = fcntl.flock

        def flock(handle, how):  # as on NFS
            if os.path.isdir(f"/proc/self/fd/{handle}"):
                raise OSError(errno.EBADF, "Bad file descriptor")
            real(handle, how)

        if not os.path.isdir("/proc/self/fd"):
            pytest.skip("no /proc here to tell a folder's handle from a file's")
        monkeypatch.setattr(fcntl, "flock", flock)
        with alone_in(home) as held, alone_in(home, patience_s=0.0) as twice:
            assert (held, twice) == (True, False)
        assert os.listdir(home) == [".lock"]

    def test_where_no_lock_can_be_had_nobody_is_seen(self, home, tmp_path, monkeypatch):
        import fcntl

        def flock(handle, how):
            raise OSError(errno.ENOLCK, "No locks available")

        with alone_in(tmp_path / "none") as alone:
            assert alone
        monkeypatch.setattr(fcntl, "flock", flock)
        with alone_in(home) as alone:
            assert alone


class TestDamaged:
    @pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"\xff\xfe\x00", b"[1]", b"null", b"[" * 10**5])
    def test_what_is_no_object_is_moved_aside_and_said_before_it_is_changed(self, home, content, capsys):
        (home / "progress.json").write_bytes(content)
        for key in "ab":
            update_json("progress.json", lambda value, key=key: value.update({key: 1}))
        assert (home / "progress.json.damaged").read_bytes() == content
        assert read_json("progress.json") == {"a": 1, "b": 1}
        (said,) = capsys.readouterr().out.splitlines()
        assert said == (
            f"What was kept in {home / 'progress.json'} is damaged; it was moved to progress.json.damaged beside it, "
            "and a new file begins."
        )

    def test_an_earlier_one_is_kept(self, home):
        for content in ("first", "second", "third"):
            (home / "a.json").write_text(content)
            update_json("a.json", lambda value: value.update(a=1))
        kept = [(home / f"a.json.damaged{end}").read_text() for end in ("", "-2", "-3")]
        assert kept == ["first", "second", "third"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
class TestInTheWay:
    """Neither a folder nor a pipe in place of a file or of the folder stops anybody, or is waited for."""

    @pytest.fixture(params=["a folder", "a pipe"])
    def put(self, request):
        return os.mkdir if request.param == "a folder" else os.mkfifo

    @pytest.mark.parametrize("change", [
        lambda name: write_json(name, {"a": 1}), lambda name: update_json(name, lambda value: value.update(a=1)),
    ])  # fmt: skip
    def test_of_a_file(self, home, put, change, capsys):
        path = home / "progress.json"
        put(path)
        assert read_json("progress.json", {}) == {}
        change("progress.json")
        change("progress.json")
        assert read_json("progress.json", {}) == {"a": 1}
        (said,) = capsys.readouterr().out.splitlines()
        kind = "a folder" if path.is_dir() else "a pipe"
        assert said.startswith(f"Rooflab cannot write {path}, which is {kind}; what belongs there is kept in memory")
        assert os.listdir(home) == ["progress.json"]
        assert not path.is_file()

    def test_of_a_log(self, home, put, capsys):
        put(home / "log.jsonl")
        for i in range(2):
            append_line("log.jsonl", i)
        assert read_lines("log.jsonl") == [0, 1]
        assert capsys.readouterr().out.count(f"cannot write {home / 'log.jsonl'}, which is") == 1

    def test_a_pipe_in_place_of_the_whole_folder(self, home, monkeypatch, capsys):
        os.mkfifo(home / "pipe")
        monkeypatch.setenv("ROOFLAB_HOME", str(home / "pipe"))
        update_json("a.json", lambda value: value.update(a=1))
        append_line("log.jsonl", 1)
        assert (read_json("a.json"), read_lines("log.jsonl")) == ({"a": 1}, [1])
        assert capsys.readouterr().out.count(f"cannot write to {home / 'pipe'} (") == 1
