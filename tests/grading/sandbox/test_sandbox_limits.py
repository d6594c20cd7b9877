"""What a guest may take of the machine, and how it ends: bombs, floods, loops, crashes, and a batch that goes on."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rooflab.grading.sandbox import Limits, Sandbox, SandboxUnavailable

from ...package.processes import alive, wait_for
from .boxes import INSIDE, LIMITS, inside, open_box, running

pytestmark = pytest.mark.xdist_group("sandbox")


def tree_is_gone(guest):
    return not alive(guest.pid)


def test_memory_of_one_process_is_bounded(sandbox):
    with inside(sandbox) as one:
        assert one.run("x = bytearray(2**30)").startswith("MemoryError")
        assert one.run("found = len(bytearray(2**27))") == str(2**27)


def test_memory_of_many_processes_adds_up(sandbox):
    with inside(sandbox) as one:
        one.tell("""
            import os, time
            for _ in range(8):
                if os.fork() == 0:
                    x = bytearray(b'x') * 2**27
                    time.sleep(60)
            time.sleep(60)
        """)
        assert one.guest.wait(60) == "It was stopped by the grader: its processes held more than 256 MiB of memory."
        assert one.guest.over_memory()


def test_shared_memory_counts_too(sandbox):
    with inside(sandbox) as one:
        one.tell("""
            import mmap, os, time
            for _ in range(4):
                if os.fork() == 0:
                    x = mmap.mmap(-1, 96 * 2**20)
                    for _ in range(96):
                        x.write(b'x' * 2**20)
                    time.sleep(60)
            time.sleep(60)
        """)
        assert "memory" in (one.guest.wait(60) or "")


def test_pages_of_the_fork_server_are_not_counted(sandbox):
    with inside(sandbox) as one:
        assert one.run("""
            import os, time
            for _ in range(10):
                if os.fork() == 0:
                    time.sleep(60)
        """)
        assert one.guest.wait(0.5) is None
        assert not one.guest.over_memory()


def test_a_fork_bomb_is_held(sandbox):
    with inside(sandbox) as one, inside(sandbox) as other:
        one.tell("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass")
        one.guest.wait(1)
        assert other.run("found = 1") == "1"
        one.guest.kill("no answer within 1 s")
        assert not one.guest.alive()
        assert re.match(r"It was stopped by the grader: (no answer|it started more than)", one.guest.wait(0) or "")
    with inside(sandbox) as later:
        assert later.run("found = 2") == "2"


def test_threads_are_counted(sandbox):
    with inside(sandbox) as one:
        answer = one.run("""
            import threading, time
            started = 0
            try:
                for _ in range(500):
                    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
                    started += 1
            except RuntimeError:
                pass
            found = started
        """)
        # Where the user is not the guest's own, the kernel counts what else this user runs, which changes meanwhile.
        if one.guest.held["users"] or one.guest.held["namespaces"]:
            assert int(answer) <= LIMITS.processes


def test_a_file_and_all_files_are_bounded(sandbox):
    with inside(sandbox) as one:
        assert one.run("f = open('big', 'wb'); f.write(bytes(2**24)); f.close()").startswith("OSError: [Errno 27]")
        answer = "None"
        one.tell("""
            import os, time
            os.remove('big')
            for i in range(40):
                with open(f'f{i}', 'wb') as file:
                    file.write(os.urandom(2**20))
        """)
        if one.guest.held["namespaces"]:
            answer = one._lines.readline()
            assert "No space left" in answer
        else:
            assert one.guest.wait(60) == "It was stopped by the grader: its files held more than 16 MiB."


def test_empty_files_are_bounded(sandbox):
    with inside(sandbox) as one:
        one.tell("import os\nfor i in range(5_000):\n    open(f'e{i}', 'w').close()")
        if one.guest.held["namespaces"]:
            assert "No space left" in one._lines.readline()
        else:
            assert "its files held more" in (one.guest.wait(60) or "")


def test_a_deep_tree_of_folders_is_removed(sandbox):
    with inside(sandbox) as one:
        one.run("""
            import os
            for i in range(1000):
                os.mkdir('d')
                os.chdir('d')
        """)
    assert not list(sandbox._folder.glob("guest-*"))


def test_descriptors_are_bounded(sandbox):
    with inside(sandbox) as one:
        assert one.run("import os\nkept = []\nwhile True:\n    kept.append(os.open('/dev/null', 0))") == (
            "OSError: [Errno 24] Too many open files: '/dev/null'"
        )


def test_a_flood_of_output_is_cut(sandbox):
    with inside(sandbox) as one:
        assert one.run("for _ in range(40): print('x' * 2**16)") == "None"
        wait_for(lambda: "dropped" in one.guest.output())
        text = one.guest.output()
        assert len(text) < LIMITS.output_bytes + 200
        assert re.search(r"\[output cut here: [\d,]+ more bytes were dropped\]$", text)


def test_output_of_both_kinds_and_of_programs_is_kept_until_the_end(sandbox):
    with inside(sandbox) as one:
        one.run("import sys; print('one'); print('two', file=sys.stderr)")
        one.run("import subprocess; subprocess.run(['echo', 'three'])")
        one.tell("print('four', end='', flush=True); import os; os._exit(3)")
        assert one.guest.wait(60) == "It ended its own process, with exit code 3."
        assert one.guest.output() == "one\ntwo\nthree\nfour"


def test_output_that_is_no_text_is_shown_all_the_same(sandbox):
    with inside(sandbox) as one:
        one.run("import os; os.write(1, b'a\\xff\\x00b'); print('\\ud800')")
        wait_for(lambda: "ud800" in one.guest.output())


STOPPED = "import os; os.kill(os.getpid(), 19)"


@pytest.mark.parametrize("how", ["while True: pass", "import time\nwhile True:\n    time.sleep(1)", STOPPED])
def test_what_hangs_and_ignores_signals_is_ended(sandbox, how):
    with inside(sandbox) as one:
        one.run("""
            import signal
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGQUIT):
                signal.signal(each, signal.SIG_IGN)
        """)
        one.tell(how)
        assert one.guest.wait(0.2) is None
        one.guest.kill("no answer within 10 s")
        assert one.guest.wait(0) == "It was stopped by the grader: no answer within 10 s."
        assert tree_is_gone(one.guest)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("import os; os.kill(os.getpid(), 9)", "It was stopped by the system (SIGKILL)"),
        ("import os; os.abort()", "It crashed with signal 6 (SIGABRT)."),
        ("import os; os._exit(0)", "It ended its own process."),
        ("import os; os.kill(os.getpid(), 40)", "It crashed with signal 40"),
        ("import os; os.close(channel.fileno()); os._exit(7)", "It ended its own process, with exit code 7."),
    ],
)
def test_ends_are_told_apart(sandbox, how, why):
    with inside(sandbox) as one:
        one.tell(how)
        assert (one.guest.wait(60) or "").startswith(why)
        assert not one.guest.alive()
        one.guest.kill("too late")
        assert (one.guest.wait(0) or "").startswith(why)


def test_processor_time_is_bounded_even_if_nobody_looks(sandbox):
    with inside(sandbox) as one:
        seconds = int(one.run("import resource; found = resource.getrlimit(resource.RLIMIT_CPU)[1]"))
        assert seconds <= LIMITS.total_s * (os.cpu_count() or 1) + 10
        one.run("resource.setrlimit(resource.RLIMIT_CPU, (1, 1))")
        one.tell("while True: pass")
        assert "SIGKILL" in (one.guest.wait(60) or "") or "processor time" in (one.guest.wait(0) or "")


def test_many_guests_at_a_time(sandbox):
    answers = {}

    def work(number):
        for turn in range(3):
            with inside(sandbox) as one:
                answers[number, turn] = one.run(f"found = {number} * {turn}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers == {(n, t): str(n * t) for n in range(6) for t in range(3)}


def test_a_fork_server_that_dies_is_started_again(sandbox):
    with inside(sandbox) as one:
        os.kill(sandbox._server.pid, signal.SIGKILL)
        if sandbox.level == "bubblewrap":  # whose PID namespace ends with it
            assert (one.guest.wait(60) or "").startswith("It was stopped")
    with inside(sandbox) as later:
        assert later.run("found = 3") == "3"


def test_a_keeper_that_is_killed_takes_its_guest_along(sandbox):
    with inside(sandbox) as one:
        pid = one.guest.pid
        os.kill(one.guest.ties.keeper, signal.SIGKILL)
        assert one.guest.wait(60) == "It was stopped: the process that kept it was killed."
        wait_for(lambda: not alive(pid))


def test_closing_ends_what_runs(sandbox):
    with open_box(sandbox.way) as opened:
        guest = opened.start(None)
        server = opened._server.pid
        folder = opened._folder
    assert guest.wait(0) == "It was stopped by the grader: its sandbox was closed."
    guest.close()
    assert not alive(guest.pid)
    assert not alive(server)
    assert not folder.exists()
    with pytest.raises(SandboxUnavailable, match="closed"):
        opened.start(None)


def test_the_argument_and_the_exit_code_arrive(sandbox):
    with open_box(sandbox.way, entry="sandbox_guest:end") as opened:
        with opened.start("import sys; sys.exit(4)") as guest:
            assert guest.wait(60) == "It ended its own process, with exit code 4."
        with opened.start("raise ValueError('wrong')") as guest:
            assert guest.wait(60) == "It ended its own process, with exit code 1."
            assert guest.output().rstrip().endswith("ValueError: wrong")
        with opened.start("#" * 3_000_000) as guest:
            assert guest.wait(60) == "It ended its own process."


def test_a_module_that_is_missing_is_named(sandbox):
    opened = None
    with pytest.raises(SandboxUnavailable, match=r"cannot import no_such_module.*install it"):
        opened = Sandbox(Limits(), modules=("no_such_module",), entry="sandbox_guest:serve", level=sandbox.level,
                         environment={"PYTHONPATH": str(INSIDE)})  # fmt: skip
    assert opened is None


def test_a_level_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="one of auto, bubblewrap, landlock, none"):
        Sandbox(Limits(), level="docker")


def test_nothing_unsafe_is_chosen_unasked(monkeypatch):
    from rooflab.grading.sandbox import bubblewrap, landlock

    monkeypatch.setattr(bubblewrap, "version", lambda: "")
    monkeypatch.setattr(landlock, "abi_version", lambda: 0)
    with pytest.raises(SandboxUnavailable, match="install bubblewrap"):
        Sandbox(Limits(), modules=(), entry="")
    with Sandbox(Limits(), modules=(), entry="", unsafe=True) as opened:
        assert opened.level == "none"
        assert "unsafe" in opened.describe()


def test_it_says_what_holds(sandbox):
    told = sandbox.describe()
    assert "seccomp" in told
    assert ("bubblewrap" in told) == (sandbox.level == "bubblewrap")
    assert ("missing: namespaces" in told) == (sandbox.way in ("landlock", "bubblewrap-outer"))


def test_a_guest_that_does_not_end_stops_nobody(sandbox, monkeypatch):
    """Its keeper stands still, as if a process hung in the kernel."""
    from rooflab.grading.sandbox import guest

    monkeypatch.setattr(guest, "PATIENCE_S", 0.2)
    server = sandbox._server.pid
    with inside(sandbox) as one:
        os.kill(one.guest.ties.keeper, signal.SIGSTOP)
        one.guest.kill("no answer within 1 s")
        assert one.guest.wait(0) == "It was stopped by the grader: no answer within 1 s (and its sandbox with it)."
        wait_for(lambda: tree_is_gone(one.guest))
    monkeypatch.setattr(guest, "PATIENCE_S", 10)
    with inside(sandbox) as later:
        assert later.run("found = 1") == "1"
    assert sandbox._server.pid != server


GRADER = """
import sys
sys.path.insert(0, {folder!r})
from tests.grading.sandbox.boxes import inside, open_box
with open_box({way!r}) as opened, inside(opened) as one:
    one.run("import os; os.fork() or os.execvp('python3', [{marker!r}, '-c', 'import time; time.sleep(600)'])")
    print('ready', flush=True)
    input()
"""


def test_a_grader_that_is_killed_leaves_nothing_running(sandbox):
    marker = f"rooflab-orphan-{os.getpid()}"
    code = GRADER.format(folder=str(Path(__file__).parents[3]), way=sandbox.way, marker=marker)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as grader:
        assert grader.stdout.readline() == "ready\n"
        wait_for(lambda: running(marker))
        grader.kill()
    wait_for(lambda: not running(marker))


def test_other_systems_are_told_where_to_go(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxUnavailable, match="on Linux only"):
        Sandbox(Limits())
