"""The parts of a process, each by itself: the capped output, the plan of its ending, the table of processes."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from supervisor.testing import replaced
from supervisor.tools import descendants
from supervisor.tools.descendants import Seen, command_of, find_process, process_table, processes_below, send_signal
from supervisor.tools.output import HeadAndTail
from supervisor.tools.termination import Termination


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.binary(max_size=50)), st.integers(0, 60))
def test_head_tail_and_count_describe_the_stream(chunks, limit):
    """T5: however the stream is cut into chunks: a true head and tail, at most the limit, and the exact total."""
    kept = HeadAndTail(limit)
    for chunk in chunks:
        kept.add(chunk)
    output, stream = kept.output(), b"".join(chunks)
    assert output.total == len(stream)
    assert len(output.head) + len(output.tail) <= limit
    assert stream.startswith(output.head)
    assert stream.endswith(output.tail)
    assert output.is_truncated == (len(stream) > limit)
    assert output.text.startswith(output.head.decode("utf-8", "backslashreplace"))


@settings(deadline=None)  # the machine may be busy
@given(st.text(min_size=1), st.integers(0, 40))
def test_a_cut_never_splits_a_character(text, limit):
    """Text stays text on both sides of the cut, and each side loses at most one character."""
    kept = HeadAndTail(limit)
    kept.add(text.encode())
    output = kept.output()
    output.head.decode()
    output.tail.decode()
    assert len(output.head) + len(output.tail) >= min(limit, output.total) - 6


def seen(pid, *, parent=1, group=None):
    """A process as the table would show it."""
    return Seen(pid, float(pid), parent, group or pid, group or pid, is_zombie=False)


@pytest.fixture
def sent():
    """Record signals instead of sending them: no process of this table is real."""
    record, refused = [], set()

    def fake_send(target, signum):
        record.append((target[0], signal.Signals(signum).name))
        return "refused" if target[0] in refused else "sent"

    class Recorded(Termination):
        send = staticmethod(fake_send)

    return SimpleNamespace(signals=record, refused=refused, termination=Recorded)


def test_each_signal_is_sent_once_and_in_order(sent):
    """SIGTERM when it is due, nothing during the grace, then SIGKILL, and a bound for the end."""
    ending = sent.termination(term_at=10.0, grace=2.0)
    assert not ending.step([seen(7)], 9.9)
    assert sent.signals == []
    for now in (10.0, 11.0, 11.9):
        assert not ending.step([seen(7)], now)
    assert sent.signals == [(7, "SIGTERM"), (7, "SIGCONT")]
    assert not ending.step([seen(7)], 12.0)
    assert sent.signals[2:] == [(7, "SIGKILL")]
    assert ending.step([seen(7)], 14.0)
    assert [each.how for each in ending.ended()] == ["stuck"]


def test_a_process_that_appears_later_has_the_rest_of_the_grace(sent):
    """A process that a SIGTERM handler starts may be part of its clean-up."""
    ending = sent.termination(term_at=0.0, grace=2.0)
    ending.step([seen(7)], 0.0)
    ending.step([seen(7), seen(8)], 1.0)
    assert (8, "SIGTERM") not in sent.signals
    ending.step([seen(8)], 2.0)
    ending.step([], 2.1)
    assert [(each.pid, each.how) for each in ending.ended()] == [(7, "terminated"), (8, "killed")]


def test_a_process_that_exits_before_the_first_signal_is_not_reported(sent):
    """It was not ended by us."""
    ending = sent.termination(term_at=1.0, grace=2.0)
    ending.step([seen(7), seen(8)], 0.0)
    ending.step([seen(8)], 1.0)
    assert [each.pid for each in ending.ended()] == [8]


def test_a_process_that_may_not_be_signalled_is_not_waited_for(sent):
    """T7: when no process that is left may be signalled, the ending is over, and says so."""
    sent.refused.add(7)
    ending = sent.termination(term_at=0.0, grace=2.0)
    assert not ending.step([seen(7), seen(8)], 0.0)
    assert ending.step([seen(7)], 0.5)
    assert [(each.pid, each.how) for each in ending.ended()] == [(7, "refused"), (8, "terminated")]


def test_descendants_are_found_through_all_generations():
    """A table with a branch, an unrelated process, and a loop that an inconsistent read could show."""
    processes = {each.pid: each for each in (seen(2), seen(3, parent=2), seen(4, parent=3), seen(5), seen(6, parent=6))}
    assert set(processes_below(processes, 2)) == {3, 4}
    assert set(processes_below(processes, 6)) == set()


def test_the_table_has_this_process_and_its_children():
    """Real processes, by their pid, parent, group and session."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        found = process_table()[child.pid]
        assert (found.parent, found.group, found.session) == (os.getpid(), child.pid, child.pid)
        assert found == find_process(child.pid)
        assert "sleep" in command_of(child.pid) or "python" in command_of(child.pid)
        assert child.pid in processes_below(process_table(), os.getpid())
        assert send_signal((found.pid, found.started_at - 1), signal.SIGKILL) == "gone"
        assert child.poll() is None
        assert send_signal(found.identity, signal.SIGKILL) == "sent"
    finally:
        child.kill()
        child.wait()
    assert find_process(child.pid) is None
    assert send_signal(found.identity, signal.SIGKILL) == "gone"


@pytest.mark.skipif(sys.platform != "linux", reason="its `ps` is compared with /proc")
def test_ps_and_proc_agree(enter):
    """The table of other platforms shows the same processes."""
    ours = find_process(os.getpid())
    enter(replaced(descendants, "PROC", False))
    theirs = find_process(os.getpid())
    assert theirs[0] == ours[0]
    assert theirs[2:] == ours[2:]
    assert os.getpid() in process_table()
    assert "python" in command_of(os.getpid())
