"""At each instant of a write, the session's name leads to the whole old file or to the whole new one."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest

from supervisor.transcripts.liveness import read_lock
from supervisor.transcripts.repair import find_files
from supervisor.transcripts.session import ChangedError, RefusedError, read_session
from supervisor.transcripts.write import locked, write_plan

# Repairs a file and kills its own process at the n-th step: just before or after the n-th system call that can change
# something. If it was not killed, it prints the number of steps.
KILLED_AT = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from supervisor.transcripts.repair import Options, repair

CHANGING = {"open", "link", "unlink", "rename", "replace", "fsync", "fchmod", "fchown", "chmod", "mkdir", "ftruncate"}
CHANGING_A_FILE = {"write", "writelines", "flush", "close", "truncate", "__exit__"}
path, last = Path(sys.argv[1]), int(sys.argv[2])
steps = 0

def count(frame, event, called):
    global steps
    if event not in ("c_call", "c_return"):
        return
    of_system = called.__module__ in ("posix", "_io", "io") and called.__name__ in CHANGING
    of_file = type(called.__self__).__module__ in ("_io", "io") and called.__name__ in CHANGING_A_FILE
    if of_system or of_file:
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

sys.setprofile(count)
report = repair(path, datetime(2026, 11, 22, tzinfo=UTC), Options(write=True, in_place=True, not_running=True))
sys.setprofile(None)
assert report.state == "repaired", report
print(steps)
"""


def crash(path, step):
    return preloaded.run([sys.executable, "-c", KILLED_AT, path, str(step)], capture_output=True, text=True)


@pytest.mark.slow
def test_a_process_killed_at_any_step_leaves_the_old_file_or_the_new_one(session, mend):
    """At every step of the write the session is whole, and the next repair finishes the work."""
    path = session("pi_v3/dangling-in-the-middle")
    old = path.read_bytes()
    steps = int(crash(path, 0).stdout)
    assert steps > 20
    new_size = path.stat().st_size
    left_old = left_new = 0
    for step in range(1, steps + 1):
        for litter in path.parent.iterdir():
            litter.unlink()
        path.write_bytes(old)
        died = crash(path, step)
        assert died.returncode == -signal.SIGKILL, died.stderr
        now = path.read_bytes()
        if now == old:
            left_old += 1
        else:
            left_new += 1
            assert len(now) == new_size
        if len(now) == new_size:
            assert [backup.read_bytes() for backup in path.parent.glob("*.bak")] == [old]
        assert mend(path, not_running=True).state == ("repaired" if now == old else "clean")
        assert len(path.read_bytes()) == new_size
        assert not list(path.parent.glob("*.repair-tmp"))
    assert left_old
    assert left_new


def test_a_backup_is_the_old_file(session, mend):
    """The old file is next to the repaired one, under another name."""
    path = session("pi_v3/dangling-at-the-end")
    before = path.read_bytes()
    report = mend(path)
    assert Path(report.backup).read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, Path(report.backup).name]


def test_a_second_backup_does_not_replace_the_first(session, mend):
    """After two repairs in one second both old files are kept."""
    path = session("pi_v3/dangling-at-the-end")
    before = path.read_bytes()
    first = mend(path).backup
    path.write_bytes(before + b"\n")
    assert mend(path).backup != first
    assert Path(first).read_bytes() == before


def test_the_backup_is_a_copy_where_links_are_not_possible(session, mend, monkeypatch):
    """Some file systems have no hard links; the test takes the lock first, which needs one."""
    path = session("pi_v3/dangling-at-the-end")
    before = path.read_bytes()
    link = os.link

    def no_backup_links(source, target):
        if str(target).endswith(".bak"):
            raise OSError(95, "Operation not supported")
        link(source, target)

    monkeypatch.setattr(os, "link", no_backup_links)
    assert Path(mend(path).backup).read_bytes() == before


def test_mode_and_owner_are_kept(session, mend):
    """The new file has the old one's permissions and owner."""
    path = session("pi_v3/dangling-at-the-end")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    before = path.stat()
    mend(path)
    after = path.stat()
    assert after.st_ino != before.st_ino
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o640, before.st_uid, before.st_gid)


def test_a_link_is_followed_and_stays_a_link(session, mend, tmp_path):
    """The file to which the link leads is repaired, and its backup is next to it."""
    real = session("pi_v3/dangling-at-the-end")
    link = tmp_path / "elsewhere" / "link.jsonl"
    link.parent.mkdir()
    link.symlink_to(real)
    report = mend(link)
    assert report.state == "repaired"
    assert link.is_symlink()
    assert read_session(real).dangling == 0
    assert Path(report.backup).parent == real.parent


def test_a_read_only_file_is_reported_and_left(session, mend):
    """To replace the file would evade its protection."""
    path = session("pi_v3/dangling-at-the-end")
    path.chmod(0o444)
    before = path.read_bytes()
    report = mend(path)
    assert (report.state, path.read_bytes()) == ("refused", before)
    assert "read-only" in report.reason
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_changed_since_it_was_judged_is_not_replaced(session, mend):
    """The writer came back between judgement and repair: its line must not be lost."""
    path = session("pi_v3/dangling-at-the-end")
    judged = read_session(path)
    with judged.open() as lines:
        plan = judged.format.plan(judged.index, judged.found, lines, _wish())
    with path.open("ab") as file:
        file.write(b'{"type":"label"}\n')
    grown = path.read_bytes()
    with pytest.raises(ChangedError):
        write_plan(judged, plan, _wish().now, as_copy=False)
    assert path.read_bytes() == grown
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_changes_during_the_write_is_not_replaced(session, monkeypatch):
    """A line that arrives while the new file is synced is noticed before the rename."""
    path = session("pi_v3/dangling-at-the-end")
    judged = read_session(path)
    with judged.open() as lines:
        plan = judged.format.plan(judged.index, judged.found, lines, _wish())
    sync = os.fsync

    def append_meanwhile(descriptor):
        sync(descriptor)
        with path.open("ab") as file:
            file.write(b'{"type":"label"}\n')

    monkeypatch.setattr(os, "fsync", append_meanwhile)
    with pytest.raises(ChangedError):
        write_plan(judged, plan, _wish().now, as_copy=False)
    assert path.read_bytes().endswith(b'{"type":"label"}\n')
    assert list(path.parent.iterdir()) == [path]


def test_a_lock_is_taken_over_from_a_dead_process_only(session):
    """Our lock is OpenClaw's: JSON with the pid of its process. A holder that is alive is named."""
    path = session("pi_v3/dangling-at-the-end")
    lock = path.with_name(path.name + ".lock")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock.write_text(json.dumps({"pid": gone.pid}))
    with locked(path, _wish().now):
        assert json.loads(lock.read_text())["pid"] == os.getpid()
        with pytest.raises(RefusedError, match=str(os.getpid())), locked(path, _wish().now):
            pass
        assert lock.exists()
    assert list(path.parent.iterdir()) == [path]


def test_a_lock_left_by_a_killed_process_with_our_pid_is_stale(session):
    """If its process was killed between its two steps, the lock has two names; we must not write into it."""
    path = session("pi_v3/dangling-at-the-end")
    own, lock = (path.with_name(f"{path.name}.lock{end}") for end in (f"-{os.getpid()}", ""))
    own.write_text(json.dumps({"pid": os.getpid(), "starttime": 1}))
    os.link(own, lock)
    with locked(path, _wish().now):
        assert read_lock(lock).starttime != 1
    assert list(path.parent.iterdir()) == [path]


def test_the_next_repair_removes_what_killed_processes_left_of_their_locks(session, mend):
    """Both names of a lock are removed if its process is gone; a living process keeps its own."""
    path = session("pi_v3/dangling-at-the-end")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for end in (f"{gone.pid}", f"{gone.pid}-stale", f"{os.getppid()}"):
        path.with_name(f"{path.name}.lock-{end}").touch()
    reused = path.with_name(f"{path.name}.lock-1")  # the pid of a living, younger process
    reused.write_text(json.dumps({"pid": 1, "starttime": -1}))
    assert mend(path).state == "repaired"
    assert [left.name for left in path.parent.glob("*.lock*")] == [f"{path.name}.lock-{os.getppid()}"]


def test_a_lock_on_a_full_disk_leaves_nothing(session, mend):
    """If the disk is full when the lock is written, the session is refused, and no empty file stays."""
    path = session("pi_v3/dangling-at-the-end")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))  # Python ignores the signal, so writing fails
    try:
        report = mend(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (report.state, list(path.parent.iterdir())) == ("refused", [path])
    assert f"{path.name}.lock" in report.reason


@pytest.mark.parametrize("asked", [{"write": True}, {"write": False}])
@pytest.mark.parametrize("names", [1, 2])
def test_another_hard_link_of_a_session_is_reported(names, asked, session, mend):
    """Only the given name leads to the repaired session: the other one keeps the old session."""
    path = session("pi_v3/dangling-at-the-end")
    other = path.with_name("other.jsonl")
    if names == 2:
        other.hardlink_to(path)
    before = path.read_bytes()
    assert len(mend(path, **asked).notes) == names - 1
    assert names == 1 or other.read_bytes() == before


def test_a_torn_tail_is_moved_once_even_if_the_repair_was_killed(session, mend):
    """A repair that was killed after the move leaves the old file; the next one does not add the tail again."""
    path = session("codex/torn-inside-a-character")
    before = path.read_bytes()
    tail = Path(mend(path).torn_moved_to)
    moved = tail.read_bytes()
    path.write_bytes(before)
    assert mend(path).torn_moved_to == str(tail)
    assert tail.read_bytes() == moved


def test_a_link_that_leads_to_itself_hides_no_other_file(session, mend):
    """It is reported like a file that cannot be read."""
    path = session("pi_v3/dangling-at-the-end")
    loop = path.with_name("loop.jsonl")
    loop.symlink_to(loop.name)
    assert [found for found, _ in find_files([path.parent])] == [path, loop]
    assert mend(loop).state == "refused"


def _wish():
    from datetime import UTC, datetime
    from uuid import uuid4

    from supervisor.transcripts.formats import Wish

    return Wish(datetime(2026, 11, 22, tzinfo=UTC), lambda: str(uuid4()), "lost")
