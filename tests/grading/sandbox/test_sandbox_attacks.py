"""What student code tries in a sandbox, and what it must not get: each attack for each way of holding guests."""

import ast
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from ...package.processes import alive, wait_for
from .boxes import inside, running

pytestmark = pytest.mark.xdist_group("sandbox")

REFUSED = re.compile(
    r"^(PermissionError|FileNotFoundError|ProcessLookupError|BlockingIOError|OSError|gaierror|ConnectionRefusedError): "
)


def refused(answer):
    return REFUSED.match(answer) is not None


@pytest.fixture
def guest(sandbox):
    with inside(sandbox) as opened:
        yield opened


SYSTEM_CALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if libc.syscall(*wide) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""


def number(name):
    from rooflab.grading.sandbox.callnumbers import ARCHITECTURES, CONDITIONAL, REFUSED

    column = ARCHITECTURES[os.uname().machine][0]
    return (REFUSED | CONDITIONAL)[name][column]


# --- the network


def test_no_listener_of_the_machine_is_reached(guest):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert refused(guest.run(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"))
        guest.run("kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)")
        assert guest.run(f"kept.connect(('127.0.0.1', {port})); kept.send(b'x'); kept.send(b'x')") != "None"


def test_no_name_is_looked_up(guest):
    assert guest.run("import socket; socket.getaddrinfo('example.org', 80)").startswith("gaierror")


def test_abstract_sockets_of_outside_are_not_reached(guest):
    with socket.socket(socket.AF_UNIX) as server:
        name = f"\0rooflab-test-{os.getpid()}"
        server.bind(name)
        server.listen()
        assert refused(guest.run(f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"))


def test_sockets_in_folders_are_not_reached(guest, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        (tmp_path / "s").chmod(0o777)
        assert refused(guest.run(f"import socket; socket.socket(socket.AF_UNIX).connect({str(tmp_path / 's')!r})"))


def test_one_end_of_a_pair_sends_to_no_other_socket(guest, tmp_path):
    pair = "import socket; one = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "log"))
        (tmp_path / "log").chmod(0o777)
        server.settimeout(0.2)
        assert refused(guest.run(f"{pair}; one.sendto(b'x', {str(tmp_path / 'log')!r})"))
        with pytest.raises(TimeoutError):
            server.recv(1)
    assert guest.run("import socket; socket.socketpair(); socket.socketpair(type=socket.SOCK_SEQPACKET)") == "None"


# --- files


def test_files_outside_are_not_read(guest, tmp_path):
    (tmp_path / "secret").write_text("hidden")
    places = [tmp_path / "secret", "/etc/shadow", Path.home() / ".profile", Path(__file__), "/etc/hostname"]
    for path in filter(os.path.exists, map(str, places)):
        assert refused(guest.run(f"found = open({path!r}).read()")), path


def test_the_folder_of_the_course_is_not_listed(guest):
    root = Path(__file__).parents[3]
    answer = guest.run(f"import os; found = sorted(os.listdir({str(root)!r}))")
    # The package, what these tests show, and Python's own environment where it lies there.
    assert refused(answer) or set(ast.literal_eval(answer)) <= {"shared", "tests", ".venv"}, answer
    assert refused(guest.run(f"found = os.listdir({str(root / 'solutions')!r})"))


def test_only_its_scratch_is_writable(guest):
    assert guest.run("import tempfile, os; open(tempfile.mkstemp()[1], 'w').write('x'); open('x', 'w')") == "None"
    folders = [sys.prefix, "/usr", "/etc", "/", "/dev", "/var/tmp", "/dev/shm", str(Path(__file__).parents[3])]
    for path in [*folders, "/proc/self/oom_score_adj"]:
        if path == "/dev/shm" and guest.guest.held["namespaces"]:
            continue
        target = path if path.startswith("/proc") else f"{path}/planted"
        assert refused(guest.run(f"open({target!r}, 'w').write('-999')")), path


def test_no_trick_with_links_leads_out(guest, tmp_path):
    (tmp_path / "secret").write_text("hidden")
    assert guest.run(f"os = __import__('os'); os.symlink({str(tmp_path / 'secret')!r}, 'link')") == "None"
    assert refused(guest.run("found = open('link').read()"))
    assert refused(guest.run(f"os.link({str(tmp_path / 'secret')!r}, 'hard')"))
    assert refused(guest.run("found = open('/proc/self/root' + os.path.abspath('link')).read()"))
    assert refused(guest.run(f"found = open('/proc/1/root' + {str(tmp_path / 'secret')!r}).read()"))


def test_guests_do_not_see_each_others_files(sandbox):
    with inside(sandbox) as one, inside(sandbox) as other:
        assert one.run("open('mine', 'w').write('secret'); import os; found = os.getcwd()")[1:-1]
        folder = one.run("found = os.getcwd()")[1:-1]
        answer = other.run(f"import glob; found = open({folder + '/mine'!r}).read()")
        assert refused(answer), answer
        assert "mine" not in other.run(f"import os; found = os.listdir({folder!r})")


def test_nothing_is_left_for_the_next_guest(sandbox):
    leave = """
        import os
        for folder in (os.environ['TMPDIR'], os.environ['HOME'], '/tmp', '/dev/shm', os.getcwd()):
            try:
                open(folder + '/left-behind', 'w').write('x')
            except OSError:
                pass
    """
    with inside(sandbox) as one:
        one.run(leave)
    with inside(sandbox) as other:
        found = """
            import os
            folders = (os.environ['TMPDIR'], os.environ['HOME'], '/tmp', '/dev/shm', os.getcwd())
            found = [f for f in folders if os.path.exists(f + '/left-behind')]
        """
        assert other.run(found) == "[]"


def test_device_files_cannot_be_made(guest):
    assert refused(guest.run("import os, stat; os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0))"))


# --- processes


def test_the_grader_is_not_signalled(guest):
    for target in (os.getpid(), os.getppid()):
        answer = guest.run(f"import os, signal; os.kill({target}, 0)")
        assert refused(answer), answer
    guest.tell("os.kill(-1, 9)")  # all that it may signal: if the grader were among them, this test would end here
    guest.guest.wait(1)
    assert alive(os.getpid())


def test_the_server_and_the_keeper_are_not_signalled(sandbox):
    with inside(sandbox) as one, inside(sandbox) as other:
        for target in (sandbox._server.pid, one.guest.ties.keeper, other.guest.pid, os.getppid()):
            assert refused(one.run(f"import os; os.kill({target}, 0)")), target
        parent = one.run("found = os.getppid()")
        assert parent == "0" or refused(one.run(f"os.kill({parent}, 0)"))
        assert other.run("found = 1") == "1"


@pytest.mark.parametrize("name", ["ptrace", "process_vm_readv"])
def test_no_other_process_is_traced(sandbox, name):
    with inside(sandbox) as one, inside(sandbox) as other:
        for target in (sandbox._server.pid, other.guest.pid, one.guest.ties.keeper, os.getpid()):
            arguments = f"16, {target}, 0, 0" if name == "ptrace" else f"{target}, None, 0, None, 0, 0"
            assert refused(one.run(f"{SYSTEM_CALL}\ncall({number(name)}, {arguments})"))


def test_the_memory_and_environment_of_others_are_not_read(sandbox):
    with inside(sandbox) as one, inside(sandbox) as other:
        parent = one.run("import os; found = os.getppid()")
        for process in (1, parent, os.getpid(), sandbox._server.pid, other.guest.pid):
            for name in ("mem", "environ", "maps", "cwd/x", "root/etc/shadow", "fd/0"):
                assert refused(one.run(f"found = open('/proc/{process}/{name}', 'rb').read(1)")), (process, name)


def test_nothing_of_the_grader_is_inherited(guest):
    assert guest.run("import os; found = sorted(map(int, os.listdir('/proc/self/fd')))[:3]") == "[0, 1, 2]"
    count = guest.run("found = len(os.listdir('/proc/self/fd'))")
    assert int(count) == 5  # three, the channel, and the folder that is being listed
    names = guest.run("found = sorted(os.environ)")
    assert "ROOFLAB_HOME" in os.environ
    assert "ROOFLAB_HOME" not in names


@pytest.mark.parametrize("text", ["setuid(12345)", "setgid(12345)", "setgroups([0])", "chroot('.')", "nice(-5)"])
def test_privileges_are_gone(guest, text):
    answer = guest.run(f"import os; os.{text}")
    assert refused(answer), answer
    status = guest.run("found = open('/proc/self/status').read()")
    held = {int(bits, 16) for bits in re.findall(r"Cap(?:Inh|Prm|Eff|Amb):\\t([0-9a-f]+)", status)}
    assert held == {0} or (held == {4} and guest.guest.held["users"]), status  # 4: search closed folders


def test_setuid_programs_gain_nothing(guest):
    program = next((path for path in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd") if os.path.exists(path)), "")
    if not program:
        pytest.skip("no program with a setuid bit is installed")
    assert (
        guest.run("found = [l.split()[1] for l in open('/proc/self/status') if l.startswith('NoNewPrivs')]") == "['1']"
    )
    told = guest.run(
        "import subprocess; found = subprocess.run(['cat', '/proc/self/status'], capture_output=True).stdout"
    )
    effective = re.search(r"CapEff:\\t([0-9a-f]+)", told)
    # Without namespaces the kernel's files about a program that the guest starts are closed to it too.
    assert effective is None or int(effective[1], 16) in (0, 4)


CALLS = {
    "mount": "b'none', b'/tmp', b'tmpfs', 0, None", "umount2": "b'/proc', 2", "chroot": "b'/tmp'",
    "unshare": "0x10000000", "setns": "0, 0", "pivot_root": "b'.', b'.'", "bpf": "0, None, 0",
    "perf_event_open": "None, 0, -1, -1, 0", "userfaultfd": "0", "keyctl": "0, -3, 1", "io_uring_setup": "8, None",
    "open_by_handle_at": "0, None, 0", "kexec_load": "0, 0, None, 0", "init_module": "None, 0, b''",
    "syslog": "3, None, 0",
    "shmget": "0, 4096, 0o1777", "msgget": "0, 0o1777", "semget": "0, 1, 0o1777", "mq_open": "b'q', 0o102, 0o600, None",
    "memfd_create": "b'x', 0", "reboot": "0, 0, 0", "swapon": "b'x', 0", "fsopen": "b'tmpfs', 0",
    "personality": "0x0040000", "clock_settime": "0, None", "sethostname": "b'x', 1", "fanotify_init": "0, 0",
    "clone": "0x10000011, 0, 0, 0, 0", "clone3": "None, 0", "pidfd_getfd": "0, 0, 0",
    "inotify_add_watch": "0, b'/tmp', 0xfff",
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_dangerous_system_calls_are_refused(guest, name):
    answer = guest.run(f"{SYSTEM_CALL}\ncall({number(name)}, {CALLS[name]})")
    assert answer.startswith(("PermissionError: [Errno 1]", "OSError: [Errno 38]")), answer


def test_system_calls_of_other_word_sizes_and_of_the_future_do_not_exist(guest):
    assert guest.run(f"{SYSTEM_CALL}\ncall(5000)").startswith("OSError: [Errno 38]")
    if os.uname().machine == "x86_64":
        assert guest.run(f"{SYSTEM_CALL}\ncall(0x40000000 + 39)").startswith("OSError: [Errno 38]")


def test_nothing_is_typed_into_a_terminal(guest):
    code = "import fcntl; fcntl.ioctl(0, {}, b'x')"
    assert guest.run(code.format("0x5412")).startswith("PermissionError")
    assert guest.run(code.format("0x100005412")).startswith(("PermissionError", "OverflowError", "ValueError"))


def test_no_new_namespace_by_a_program(guest):
    told = guest.run(
        "import subprocess; found = subprocess.run(['unshare', '-Ur', 'true'], capture_output=True).returncode"
    )
    assert told != "0"


def test_the_limits_of_others_are_not_changed(guest):
    answer = guest.run(f"import resource; resource.prlimit({os.getpid()}, resource.RLIMIT_CPU, (1, 1))")
    assert refused(answer), answer
    answer = guest.run("resource.setrlimit(resource.RLIMIT_NPROC, (10**6, 10**6))")
    assert answer.startswith("ValueError"), answer


def test_a_daemon_does_not_outlive_the_run(sandbox):
    marker = f"rooflab-daemon-{os.getpid()}"
    with inside(sandbox) as one:
        one.run(f"""
            import os, subprocess
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.closerange(3, 100)
                    os.execvp('python3', ['{marker}', '-c', 'import time; time.sleep(600)'])
                os._exit(0)
            os.wait()
        """)
        wait_for(lambda: running(marker))
    assert not running(marker)


def test_killing_its_group_ends_itself_only(sandbox):
    with inside(sandbox) as one, inside(sandbox) as other:
        one.tell("import os; os.killpg(0, 9)")
        assert one.guest.wait(60)
        assert other.run("found = 1") == "1"
    with inside(sandbox) as later:
        assert later.run("found = 2") == "2"


def test_a_crash_harms_no_other(sandbox):
    with inside(sandbox) as one:
        one.tell("import ctypes; ctypes.string_at(0)")
        assert one.guest.wait(60) == "It crashed with signal 11 (SIGSEGV)."
    with inside(sandbox) as other:
        assert other.run("found = 1") == "1"


def test_no_core_is_dumped(guest):
    answer = guest.run("""
        import os, subprocess
        found = subprocess.run(['python3', '-S', '-c', 'import os; os.abort()']).returncode, os.listdir('.')
    """)
    assert answer == "(-6, [])", answer


def test_a_file_that_is_given_is_read_only(tmp_path, sandbox):
    from .boxes import INSIDE, open_box

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("1,2")
    (tmp_path / "solution").write_text("hidden")
    given = {"PYTHONPATH": str(INSIDE)}
    with open_box(sandbox.way, read_only=[tmp_path / "data"], environment=given) as opened, inside(opened) as one:
        path = str(tmp_path / "data" / "rows.csv")
        assert one.run(f"found = open({path!r}).read()") == "'1,2'"
        assert refused(one.run(f"open({path!r}, 'a')"))
        assert refused(one.run(f"import os; os.remove({path!r})"))
        assert refused(one.run(f"found = open({str(tmp_path / 'solution')!r}).read()"))


def test_the_argument_of_another_guest_is_not_left_in_memory(sandbox):
    secret = "sesame-" + "-".join("opened")  # built here, so that nothing that the guest is told holds it whole
    with inside(sandbox, {"code": secret * 100}) as one:
        assert one.run("found = len(argument['code'])") == str(100 * len(secret))
    look = """
        import ctypes, re
        parts, found = ['sesame-', 'o-p-e-n-e-d'], 0
        for line in open('/proc/self/maps'):
            first, last, rights, name = re.match(r'(\\w+)-(\\w+) (\\S+) \\S+ \\S+ \\S+ *(.*)', line).groups()
            if rights.startswith('rw') and not name.startswith(('[v', '/')):
                data = ctypes.string_at(int(first, 16), int(last, 16) - int(first, 16))
                found += data.count(parts[0].encode() + parts[1].encode() + parts[0].encode())
    """
    with inside(sandbox) as other:
        assert other.run(look) == "0"
    with inside(sandbox, {"code": secret * 100}) as again:
        assert int(again.run(look)) > 0, "what is looked for is not found where it is"
