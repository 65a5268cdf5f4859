"""Properties of every repair, whatever the session looks like."""

import itertools
import json
import tempfile
import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from strategies import claude_sessions, codex_rollouts, dangling_anywhere, dangling_in_frames, pi_lists, pi_trees

from supervisor.transcripts.repair import Options, repair
from supervisor.transcripts.session import read_session

NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
SESSIONS = {"pi_v3": pi_trees(), "pi_v1": pi_lists(), "codex": codex_rollouts(), "claude_code": claude_sessions()}
ANY = st.one_of(*SESSIONS.values())
quickly = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def mended(data, **options):
    """Repair bytes in a new folder; return the report, and the repaired bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(data)
        report = repair(path, NOW, Options(**{"write": True, "in_place": True, **options}))
        return report, path.read_bytes()


def judged(data, held=()):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(data)
        return read_session(path, held)


def without(report, data):
    """Return the lines of a repaired file without the added ones."""
    added = Counter(line.line.encode() for line in report.added)
    kept = []
    for line in data.split(b"\n"):
        if added[line]:
            added[line] -= 1
        else:
            kept.append(line)
    assert not +added
    return kept


@quickly
@given(st.one_of(pi_trees(), pi_lists()))
def test_pi_s_dangling_calls_are_found_by_occurrence_in_their_frames(made):
    """A reused id, an early result or an extra one never hides a dangling call."""
    assert judged(made.data).dangling == dangling_in_frames(made.steps)


@quickly
@given(codex_rollouts())
def test_codex_s_dangling_calls_are_found_by_occurrence_in_the_whole_file(made):
    """For Codex an output may be anywhere after its call."""
    assert judged(made.data).dangling == dangling_anywhere(made.steps)


@quickly
@given(claude_sessions())
def test_claude_code_s_dangling_calls_are_found_on_every_line_of_a_reply(made):
    """A walk from the tip would miss the sibling lines."""
    assert judged(made.data).dangling == sum(made.steps)


@quickly
@given(ANY)
def test_one_repair_answers_every_dangling_call_once_and_the_next_changes_nothing(made):
    """Idempotent: a repair adds one result for each dangling call, and the next repair has nothing to do."""
    before = judged(made.data)
    report, once = mended(made.data)
    assert len(report.added) == before.dangling
    again, twice = mended(once)
    assert (again.state, again.dangling, twice) == ("clean", 0, once)
    assert (again.calls, again.orphaned) == (before.calls, before.orphaned)


@quickly
@given(ANY)
def test_every_line_is_preserved_but_for_announced_pointers(made):
    """All lines but the added ones are the old lines in their order; in a changed line only one value differs."""
    report, after = mended(made.data)
    changed = {change.at - 1: change.line.encode() for change in report.changed}
    lines = made.data.split(b"\n")
    kept = [changed.get(at, line) for at, line in enumerate(lines)]
    assert [line for line in without(report, after) if line] == [line for line in kept if line]
    for at, line in changed.items():
        old, new = json.loads(lines[at]), json.loads(line)
        assert [key for key in old if old[key] != new[key]] in (["parentId"], ["parentUuid"], ["firstKeptEntryIndex"])


@quickly
@given(st.one_of(pi_trees(), claude_sessions()))
def test_the_conversation_keeps_every_line_that_it_had(made):
    """A repair in the middle of a tree cuts nothing off: each line on the path stays on it."""

    def conversation(data):
        session = judged(data)
        labels = session.format.labels(session.index)
        ids = session.index.ids
        return {ids[at] for at, label in enumerate(labels) if label and ids[at]}

    before = conversation(made.data)
    report, after = mended(made.data)
    assert before <= conversation(after)
    assert len(conversation(after)) == len(before) + len(report.added)


@quickly
@given(pi_lists())
def test_a_compaction_names_the_same_entry_afterwards(made):
    """The one number that an inserted line shifts is adjusted."""

    def named(data):
        entries = []
        for line in data.split(b"\n"):
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        found = [entry["firstKeptEntryIndex"] for entry in entries if entry.get("type") == "compaction"]
        return [{k: v for k, v in entries[at].items() if k != "firstKeptEntryIndex"} for at in found]

    assert named(mended(made.data)[1]) == named(made.data)


@quickly
@given(ANY)
def test_a_repair_is_deterministic_but_for_ids_and_time(made):
    """The same ids and the same time give the same bytes."""

    def repaired_with(numbers):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers) << 96))
            return mended(made.data)[1]

    assert repaired_with(itertools.count(2**30)) == repaired_with(itertools.count(2**30))


@quickly
@given(ANY, st.sets(st.sampled_from(["c1", "c2", "ta0.0", "ta1.1"])))
def test_a_held_call_is_never_answered(made, held):
    """Pending approvals and living runs answer their calls themselves; all other calls are answered as usual."""
    report, after = mended(made.data, held=tuple(held))
    assert not {line.call_id for line in report.added} & held
    assert judged(after, held).dangling == 0
    assert judged(after).dangling == judged(made.data, held).held


@quickly
@given(st.one_of(pi_trees(), pi_lists()))
def test_calls_that_were_cut_off_or_failed_are_never_answered(made):
    """Such a call is not known whole; it is counted, before and after."""
    report, after = mended(made.data)
    assert judged(after).unanswerable == judged(made.data).unanswerable
    whole = {own for step in made.steps if step[0] == "assistant" and step[2] == "toolUse" for own, ok in step[1] if ok}
    assert {line.call_id for line in report.added} <= whole


@quickly
@given(st.one_of(pi_trees(), pi_lists()))
def test_orphaned_results_are_dropped_only_on_request(made):
    """Without the flag each stays; with it one that a call lacks, or one at the tip, stays with a note; no other line
    is dropped."""
    before = judged(made.data)
    assert mended(made.data)[0].dropped == []
    report, after = mended(made.data, drop_orphaned=True)
    kept = [note for note in report.notes if "stays" in note]
    assert judged(after).orphaned == len(kept)
    assert sum("its orphaned result stays; without it" in note for note in kept) <= 1
    assert len(report.dropped) == before.orphaned - len(kept)
    lines = [sum(bool(line.strip()) for line in data.split(b"\n")) for data in (made.data, after)]
    assert lines[1] - lines[0] == len(report.added) - len(report.dropped)


@quickly
@given(ANY, st.data())
def test_a_file_that_ends_anywhere_is_repaired_without_losing_a_byte(made, data):
    """A crash may cut the last line at any byte; that line stays and gets a line end, or is whole."""
    cut = made.data[: data.draw(st.integers(0, len(made.data)))]
    report, after = mended(cut)
    assert report.state in ("clean", "repaired", "unknown")
    if report.state == "repaired" and not report.changed:
        kept = b"\n".join(without(report, after)).strip(b"\n")
        assert kept == cut.strip(b"\n")
    assert mended(after)[0].state in ("clean", "unknown")


@quickly
@given(ANY, st.binary(max_size=60), st.data())
def test_bad_bytes_end_in_a_report_and_never_in_a_traceback(made, junk, data):
    """Whatever bytes are in the middle of a file, the file is judged or refused."""
    at = data.draw(st.integers(0, len(made.data)))
    report, _ = mended(made.data[:at] + junk + made.data[at:])
    assert report.state in ("clean", "repaired", "unknown", "refused")
    assert (report.reason is None) == (report.state in ("clean", "repaired"))


@quickly
@given(ANY)
def test_the_only_result_of_a_call_is_never_dropped(made):
    """Also where a result is out of place, a call that had a real result keeps one."""
    calls, results = ids_of(made.data)
    _, kept = ids_of(mended(made.data, drop_orphaned=True)[1])
    assert not {own for own in results if calls[own] == 1} - kept.keys()


def ids_of(data):
    """Count the whole calls that are sent, and the real results, by id."""
    calls, results = Counter(), Counter()
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        message = entry.get("message") or entry.get("payload") or {}
        if message.get("stopReason") in ("error", "aborted"):
            continue
        blocks = message.get("content")
        for block in [message, *(blocks if isinstance(blocks, list) else [])]:
            kind = block.get("type") or block.get("role")
            if kind in ("toolCall", "tool_use", "function_call"):
                calls[block.get("call_id") or block["id"]] += 1
            elif kind in ("toolResult", "tool_result", "function_call_output") and b"execution lost" not in line:
                results[block.get("call_id") or block.get("toolCallId") or block["tool_use_id"]] += 1
    return calls, results
