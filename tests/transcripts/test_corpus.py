"""Each file of the corpus is one edge case, named after it: what is found in it, and that its repair is careful."""

import os
import shutil
from pathlib import Path

import pytest

from supervisor.transcripts.session import read_session

CORPUS = Path(__file__).parent / "corpus"

# calls, dangling, orphaned, unanswerable, torn
FOUND = {
    "claude_code/compact-boundary-cuts-the-path": (0, 0, 0, 0, 0),
    "claude_code/dangling-at-the-end": (1, 1, 0, 0, 0),
    "claude_code/dangling-next-to-a-result-written-early": (2, 1, 0, 0, 0),
    "claude_code/dangling-in-the-middle": (1, 1, 0, 0, 0),
    "claude_code/last-prompt-names-another-branch": (1, 1, 0, 0, 0),
    "claude_code/one-reply-over-several-lines": (2, 0, 0, 0, 0),
    "claude_code/orphaned-at-the-tip": (0, 0, 1, 0, 0),
    "claude_code/orphaned-at-the-tip-with-another-branch-before-it": (0, 0, 1, 0, 0),
    "claude_code/parent-that-is-missing": (1, 1, 0, 0, 0),
    "claude_code/person-said-no": (1, 0, 0, 0, 0),
    "claude_code/progress-lines-after-the-call": (1, 1, 0, 0, 0),
    "claude_code/result-after-the-next-reply": (1, 0, 0, 0, 0),
    "claude_code/result-written-before-its-call": (2, 0, 0, 0, 0),
    "claude_code/result-whose-call-is-lost": (0, 0, 1, 0, 0),
    "claude_code/rewound-to-another-branch": (0, 0, 0, 0, 0),
    "claude_code/sibling-result-off-the-path-dangling": (2, 1, 0, 0, 0),
    "claude_code/sidechain-in-the-main-file": (1, 1, 0, 0, 0),
    "claude_code/sub-agent-file": (1, 1, 0, 0, 0),
    "claude_code/summary-first": (1, 1, 0, 0, 0),
    "claude_code/tip-with-a-clock-that-was-ahead": (1, 1, 0, 0, 0),
    "claude_code/two-parallel-calls-dangling-at-the-end": (2, 2, 0, 0, 0),
    "codex/custom-and-local-shell-and-search-calls": (4, 3, 0, 1, 0),
    "codex/dangling-at-the-end": (1, 1, 0, 0, 0),
    "codex/dangling-before-a-compaction": (2, 0, 0, 0, 0),
    "codex/dangling-in-the-middle": (2, 1, 0, 0, 0),
    "codex/lines-with-ordinals": (1, 1, 0, 0, 0),
    "codex/numbers-with-decimals": (1, 1, 0, 0, 0),
    "codex/output-before-its-call": (1, 0, 0, 0, 0),
    "codex/output-long-after-its-call": (1, 0, 0, 0, 0),
    "codex/output-whose-call-is-lost": (0, 0, 1, 0, 0),
    "codex/same-id-in-two-classes": (2, 1, 0, 0, 0),
    "codex/torn-inside-a-character": (1, 1, 0, 0, 1),
    "pi_v1/calls-of-a-failed-message": (3, 0, 0, 3, 0),
    "pi_v1/compaction-points-before-the-inserted-line": (1, 1, 0, 0, 0),
    "pi_v1/compaction-points-after-the-inserted-line": (1, 1, 0, 0, 0),
    "pi_v1/dangling-at-the-end": (1, 1, 0, 0, 0),
    "pi_v1/dangling-in-the-middle": (1, 1, 0, 0, 0),
    "pi_v1/torn-lines-have-no-number": (1, 1, 0, 0, 1),
    "pi_v2/dangling-at-the-end": (1, 1, 0, 0, 0),
    "pi_v2/hook-message-after-the-call": (1, 1, 0, 0, 0),
    "pi_v3/aborted-message-with-a-result": (1, 0, 1, 1, 0),
    "pi_v3/blank-lines": (1, 1, 0, 0, 0),
    "pi_v3/buffer-of-a-call-that-was-cut-off": (1, 0, 0, 1, 0),
    "pi_v3/buffer-of-a-whole-call": (1, 1, 0, 0, 0),
    "pi_v3/byte-order-mark": (1, 1, 0, 0, 0),
    "pi_v3/bytes-that-are-no-utf-8-in-the-result": (1, 0, 0, 0, 0),
    "pi_v3/call-cut-off-while-written": (1, 0, 0, 1, 0),
    "pi_v3/call-lost-result-kept": (0, 0, 1, 0, 0),
    "pi_v3/custom-message-after-the-call": (1, 1, 0, 0, 0),
    "pi_v3/dangling-at-the-end": (1, 1, 0, 0, 0),
    "pi_v3/dangling-in-the-middle": (2, 1, 0, 0, 0),
    "pi_v3/dangling-on-an-abandoned-branch": (0, 0, 0, 0, 0),
    "pi_v3/edit-omits-the-call": (0, 0, 0, 0, 0),
    "pi_v3/edit-omits-the-call-and-a-later-one-brings-it-back": (1, 1, 0, 0, 0),
    "pi_v3/edit-omits-the-result": (1, 1, 0, 0, 0),
    "pi_v3/edit-on-another-branch": (1, 1, 0, 0, 0),
    "pi_v3/edit-shortens-the-result": (1, 0, 0, 0, 0),
    "pi_v3/half-a-surrogate-pair-in-the-result": (1, 0, 0, 0, 0),
    "pi_v3/header-only": (0, 0, 0, 0, 0),
    "pi_v3/label-after-the-call": (1, 1, 0, 0, 0),
    "pi_v3/last-line-without-a-line-feed": (1, 1, 0, 0, 0),
    "pi_v3/line-feeds-of-windows": (1, 1, 0, 0, 0),
    "pi_v3/line-separator-inside-a-string": (1, 1, 0, 0, 0),
    "pi_v3/one-of-three-parallel-calls-dangling": (3, 1, 0, 0, 0),
    "pi_v3/orphaned-at-the-tip-with-another-branch-before-it": (0, 0, 1, 0, 0),
    "pi_v3/parent-written-after-its-child": (1, 1, 0, 0, 0),
    "pi_v3/real-result-after-a-synthesised-one": (1, 0, 1, 0, 0),
    "pi_v3/result-before-its-call": (1, 1, 1, 0, 0),
    "pi_v3/reused-id-dangling-the-first-time": (2, 1, 0, 0, 0),
    "pi_v3/reused-id-dangling-the-second-time": (2, 1, 0, 0, 0),
    "pi_v3/torn-last-line": (1, 1, 0, 0, 1),
    "pi_v3/torn-last-line-and-nothing-dangling": (0, 0, 0, 0, 1),
    "pi_v3/two-branches-from-the-frame": (1, 1, 0, 0, 0),
    "pi_v3/two-results-for-one-call": (1, 0, 1, 0, 0),
}
UNKNOWN = sorted(path.stem for path in (CORPUS / "unknown").glob("*.jsonl"))


def test_every_file_of_the_corpus_has_its_expectation():
    """A file without an expectation proves nothing."""
    files = {f"{path.parent.name}/{path.stem}" for path in CORPUS.rglob("*.jsonl")}
    assert files - {f"unknown/{name}" for name in UNKNOWN} == FOUND.keys()


@pytest.mark.parametrize("name", FOUND)
def test_the_edge_case_is_found(name):
    """Calls, dangling calls, orphaned results, unanswerable calls and torn lines are counted."""
    found = read_session(CORPUS / f"{name}.jsonl")
    assert (found.calls, found.dangling, found.orphaned, found.unanswerable, len(found.torn)) == FOUND[name]


@pytest.mark.parametrize("name", FOUND)
def test_a_second_repair_changes_nothing(name, session, mend):
    """One repair answers every dangling call; the next one finds nothing to do and changes no byte."""
    path = session(name)
    first = mend(path)
    assert first.state == ("repaired" if FOUND[name][1] else "clean")
    assert len(first.added) == FOUND[name][1]
    once = path.read_bytes()
    second = mend(path)
    assert (second.state, second.dangling, second.calls) == ("clean", 0, FOUND[name][0])
    assert path.read_bytes() == once


@pytest.mark.parametrize("name", FOUND)
def test_every_existing_line_is_unchanged_but_for_its_pointer(name, session, mend):
    """The existing lines come out in their order, byte by byte; only announced pointers differ."""
    path = session(name)
    before = path.read_bytes().split(b"\n")
    report = mend(path)
    changed = {change.at - 1: change.line for change in report.changed}
    kept = [changed[at].encode() if at in changed else line for at, line in enumerate(before)]
    if report.torn_moved_to:
        kept.pop()
    added = [line.line.encode() for line in report.added]
    after = [line for line in path.read_bytes().split(b"\n") if line.rstrip(b"\r") not in added]
    assert [line for line in after if line] == [line for line in kept if line]


@pytest.mark.parametrize("name", FOUND)
def test_a_dry_run_changes_nothing_and_says_what_a_repair_would_do(name, session, mend):
    """A dry run adds no file, changes no byte, and announces as many lines as a repair adds."""
    path = session(name)
    before = path.read_bytes()
    looked = mend(path, write=False)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    assert [(line.after, line.call_id) for line in looked.added] == [
        (line.after, line.call_id) for line in mend(path).added
    ]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_file_of_unknown_format_is_refused(name, session, mend):
    """A file that no format recognises is left alone, with a reason."""
    path = session(f"unknown/{name}")
    before = path.read_bytes()
    report = mend(path)
    assert report.state == "unknown"
    assert report.reason
    assert path.read_bytes() == before


@pytest.mark.skipif("SUPERVISOR_CORPUS" not in os.environ, reason="SUPERVISOR_CORPUS names no folder of real sessions")
def test_in_a_real_session_nothing_may_be_answered(tmp_path, mend):
    """pi's own large session: 391 calls, 18 without a result, all of them in messages that failed."""
    path = Path(shutil.copy(Path(os.environ["SUPERVISOR_CORPUS"]) / "pi-large-session.jsonl", tmp_path))
    before = path.read_bytes()
    report = mend(path)
    assert (report.state, report.format) == ("clean", "pi v1")
    assert (report.calls, report.dangling, report.orphaned, report.unanswerable) == (391, 0, 0, 18)
    assert path.read_bytes() == before
