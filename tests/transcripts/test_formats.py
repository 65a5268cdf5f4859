"""Where each format wants a result: the rules by which the makers' programs load a file."""

import json
from pathlib import Path

import pytest


def test_pi_is_appended_to_with_the_leaf_as_parent(session, mend, read):
    """pi treats the last entry as the leaf, so the result's parent is the leaf, even if that is a label."""
    path = session("pi_v3/label-after-the-call")
    before = path.read_bytes()
    mend(path)
    assert path.read_bytes().startswith(before)
    *_, label, result = read(path)
    assert (label["type"], result["parentId"]) == ("label", label["id"])
    assert (result["message"]["toolCallId"], result["message"]["isError"]) == ("c1", True)


def test_content_for_the_model_after_the_call_comes_after_the_result(session, mend, read):
    """A custom message is sent, so the result is inserted before it, and it becomes the result's child."""
    path = session("pi_v3/custom-message-after-the-call")
    mend(path)
    *_, call, result, message = read(path)
    assert (result["parentId"], message["parentId"]) == (call["id"], result["id"])
    assert message["type"] == "custom_message"


def test_only_the_successor_on_the_active_branch_is_re_parented(session, mend, read):
    """Another branch from the same frame stays unchanged."""
    path = session("pi_v3/two-branches-from-the-frame")
    left = read(path)[3]
    report = mend(path)
    entries = {entry["id"]: entry for entry in read(path)}
    assert entries[left["id"]] == left
    assert [change.at for change in report.changed] == [6]
    assert entries["a0000008"]["parentId"] not in ("a0000001", left["id"])


def test_results_of_parallel_calls_follow_their_siblings(session, mend, read):
    """The result is inserted after the last real result of its frame, before the person's message."""
    path = session("pi_v3/dangling-in-the-middle")
    mend(path)
    messages = [entry["message"] for entry in read(path)[1:]]
    assert [m.get("toolCallId") or m["role"] for m in messages] == [
        "user",
        "assistant",
        "c1",
        "c2",
        "user",
        "assistant",
    ]


def test_a_real_result_takes_the_place_of_a_synthesised_one_only_on_request(session, mend, read):
    """Without the flag both stay; with it the synthesised one is dropped and its children move to its parent."""
    path = session("pi_v3/real-result-after-a-synthesised-one")
    assert mend(path).state == "clean"
    report = mend(path, drop_orphaned=True)
    assert (report.state, report.dropped) == ("repaired", [4])
    results = [entry for entry in read(path) if entry.get("message", {}).get("role") == "toolResult"]
    assert [(r["parentId"], r["message"]["content"][0]["text"]) for r in results] == [("a0000001", "real")]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("compaction-points-after-the-inserted-line", "go on"),
        ("compaction-points-before-the-inserted-line", "hi"),
        ("torn-lines-have-no-number", "go on"),
    ],
)
def test_a_compaction_of_pi_v1_keeps_naming_the_same_entry(name, named, session, mend, read):
    """pi counts the readable entries, so a number after the inserted line grows with it."""
    path = session(f"pi_v1/{name}")
    mend(path)
    entries = read(path)
    compaction = next(entry for entry in entries if entry.get("type") == "compaction")
    assert entries[compaction["firstKeptEntryIndex"]]["message"]["content"][0]["text"] == named


def test_each_result_of_claude_code_names_its_own_call_line(session, mend, read):
    """Two parallel calls are two lines; each gets a line of its own whose parent is its call's."""
    path = session("claude_code/two-parallel-calls-dangling-at-the-end")
    mend(path)
    *_, one, two, for_one, for_two = read(path)
    assert [(r["parentUuid"], r["sourceToolAssistantUUID"]) for r in (for_one, for_two)] == [
        (one["uuid"], one["uuid"]),
        (two["uuid"], two["uuid"]),
    ]
    kept = ("sessionId", "cwd", "version", "gitBranch", "userType", "isSidechain")
    assert {key: for_two[key] for key in kept} == {key: two[key] for key in kept}


@pytest.mark.parametrize("name", ["dangling-at-the-end", "tip-with-a-clock-that-was-ahead"])
def test_a_result_at_the_tip_of_claude_code_is_the_newest_line(name, session, mend, read):
    """The newest message is the tip, whatever the session's clock said."""
    path = session(f"claude_code/{name}")
    mend(path)
    *earlier, result = read(path)
    assert all(entry["timestamp"] < result["timestamp"] for entry in earlier)


def test_a_result_in_the_middle_of_claude_code_is_not_the_newest_line(session, mend, read):
    """A new timestamp in the middle would make the result the tip, and cut off what follows."""
    path = session("claude_code/dangling-in-the-middle")
    mend(path)
    _, call, result, after, tip = read(path)
    assert (result["parentUuid"], after["parentUuid"]) == (call["uuid"], result["uuid"])
    assert max(result["timestamp"], tip["timestamp"]) == tip["timestamp"]


def test_in_place_codex_gets_only_appended_lines_with_the_next_ordinals(session, mend, read):
    """A repeated ordinal or a shifted byte would freeze the thread."""
    path = session("codex/lines-with-ordinals")
    before = path.read_bytes()
    mend(path)
    assert path.read_bytes().startswith(before)
    assert read(path)[-1]["ordinal"] == 4
    assert read(path)[-1]["payload"]["type"] == "function_call_output"


def test_each_class_of_codex_tools_has_its_own_output(session, mend, read):
    """Codex pairs by class: a custom tool's output does not answer a function of the same id."""
    path = session("codex/custom-and-local-shell-and-search-calls")
    mend(path)
    outputs = [entry["payload"]["type"] for entry in read(path)[-3:]]
    assert outputs == ["custom_tool_call_output", "function_call_output", "tool_search_output"]


def test_a_repaired_copy_of_a_rollout_has_the_output_after_its_call(session, mend, read):
    """By default the rollout is left alone, and a second repair does not write its copy again."""
    path = session("codex/dangling-in-the-middle")
    before = path.read_bytes()
    report = mend(path, in_place=False)
    assert path.read_bytes() == before
    copy = path.with_name(path.name + ".repaired")
    assert (report.state, report.written, report.backup) == ("repaired", str(copy), None)
    assert [e["payload"].get("call_id") for e in read(copy)[2:]] == ["c1", "c1", "c2", "c2", None]
    written = copy.stat().st_mtime_ns
    assert mend(path, in_place=False).state == "repaired"
    assert copy.stat().st_mtime_ns == written


def test_a_compressed_rollout_is_read_and_copied_compressed(session, mend):
    """A rollout that Codex archived gets a copy next to it; lines cannot be appended to the archive itself."""
    zstandard = pytest.importorskip("zstandard")
    path = session("codex/dangling-at-the-end")
    packed = path.with_name("rollout.jsonl.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    assert mend(packed).state == "refused"
    report = mend(packed, in_place=False)
    assert report.state == "repaired"
    with zstandard.open(report.written, "rb") as copy:
        lines = copy.read().splitlines()
    output = json.loads(lines.pop(3))
    assert (output["payload"]["type"], output["payload"]["call_id"]) == ("function_call_output", "c1")
    assert lines == path.read_bytes().splitlines()


@pytest.mark.parametrize("frames", [1, 2])
def test_a_cut_off_compressed_rollout_is_refused_and_several_frames_are_not(session, mend, frames):
    """A file that was cut between two blocks looks whole: a copy would silently drop the rest."""
    zstandard = pytest.importorskip("zstandard")
    path = session("codex/dangling-at-the-end")
    packed = path.with_name("rollout.jsonl.zst")
    lines = path.read_bytes().splitlines(keepends=True)
    packer = zstandard.ZstdCompressor().compressobj()
    ended = packer.compress(b"".join(lines[:-1])) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    if frames == 2:
        ended += packer.flush() + zstandard.ZstdCompressor().compress(lines[-1])
    packed.write_bytes(ended)
    report = mend(packed, in_place=False)
    assert report.state == ("refused" if frames == 1 else "repaired")
    assert packed.read_bytes() == ended


def test_a_torn_tail_that_stops_codex_is_moved_whole(session, mend, read):
    """Codex refuses a file with half a character in it: the line moves to a file next to it, and the report says so."""
    path = session("codex/torn-inside-a-character")
    tail = path.read_bytes().rpartition(b"\n")[2]
    report = mend(path)
    assert path.with_name(path.name + ".torn").read_bytes() == tail + b"\n"
    assert report.torn_moved_to == str(path) + ".torn"
    path.read_text(encoding="utf-8")
    assert read(path)[-1]["payload"]["type"] == "function_call_output"


@pytest.mark.parametrize("name", ["pi_v1", "pi_v3", "claude_code", "codex"])
def test_a_result_says_that_the_command_may_have_run_or_the_persons_text(name, session, mend):
    """The default text is OpenClaw's, and true; a person's own text replaces it."""
    report = mend(session(f"{name}/dangling-at-the-end"), write=False)
    assert "[tool execution lost — session was interrupted]" in report.added[0].line
    assert "may have run" in report.added[0].line
    report = mend(session(f"{name}/dangling-at-the-end"), text="Ask me first.")
    assert "Ask me first." in report.added[0].line
    assert "lost" not in report.added[0].line


@pytest.mark.parametrize("name", ["pi_v1", "pi_v3", "claude_code", "codex"])
def test_a_call_that_will_be_answered_is_left_open(name, session, mend):
    """The call of a pending approval is not dangling."""
    path = session(f"{name}/dangling-at-the-end")
    report = mend(path, held=("c1", "t1"))
    assert (report.state, report.dangling, report.held) == ("clean", 0, 1)


def test_added_lines_end_as_the_files_lines_do(session, mend):
    """A file with Windows line ends keeps them, and a last line without a line end gets one first."""
    windows = session("pi_v3/line-feeds-of-windows")
    mend(windows)
    assert windows.read_bytes().count(b"\n") == windows.read_bytes().count(b"\r\n") == 4
    unended = session("pi_v3/last-line-without-a-line-feed")
    before = unended.read_bytes()
    mend(unended)
    assert unended.read_bytes().startswith(before + b'\n{"type":"message"')


def test_an_orphaned_result_is_dropped_only_on_request(session, mend):
    """Nothing is deleted by default; on request the line is dropped, and only that line."""
    path = session("codex/output-whose-call-is-lost")
    before = path.read_bytes().splitlines()
    assert (mend(path).state, mend(path).orphaned) == ("clean", 1)
    report = mend(path, drop_orphaned=True, in_place=False)
    assert report.dropped == [2]
    assert Path(report.written).read_bytes().splitlines() == [before[0], before[2]]


def test_the_children_of_a_dropped_line_move_to_its_parent(session, mend, read):
    """The tree stays whole without the orphaned result, and a backup keeps the dropped line."""
    path = session("claude_code/result-whose-call-is-lost")
    before = path.read_bytes()
    first, _, last = read(path)
    report = mend(path, drop_orphaned=True)
    assert read(path) == [first, last | {"parentUuid": first["uuid"]}]
    assert Path(report.backup).read_bytes() == before


@pytest.mark.parametrize("name", ["pi_v3", "claude_code"])
def test_an_orphaned_result_at_the_tip_stays_if_another_branch_would_become_the_tip(name, session, mend):
    """Dropping it would show the person another conversation; the report says so, and nothing is dropped."""
    path = session(f"{name}/orphaned-at-the-tip-with-another-branch-before-it")
    before = path.read_bytes()
    report = mend(path, drop_orphaned=True)
    assert (report.state, path.read_bytes()) == ("clean", before)
    assert "stays" in report.notes[0]


def test_an_orphaned_result_at_the_tip_is_dropped_if_there_is_no_other_branch(session, mend, read):
    """The session then ends with the message before it, for its maker, too."""
    path = session("claude_code/orphaned-at-the-tip")
    first, _ = read(path)
    assert mend(path, drop_orphaned=True).state == "repaired"
    assert read(path) == [first]


@pytest.mark.parametrize(("mebibytes", "state"), [(1, "clean"), (100, "refused")])
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(mebibytes, state, session, mend):
    """A bomb fills the disk and takes minutes: we stop above a thousandfold and a minimum size."""
    zstandard = pytest.importorskip("zstandard")
    plain = session("codex/output-long-after-its-call")
    packed = plain.with_name("rollout.jsonl.zst")
    packed.write_bytes(zstandard.compress(plain.read_bytes() + b" " * (mebibytes << 20)))
    assert packed.stat().st_size < 10_000 * mebibytes
    assert mend(packed, in_place=False).state == state


def test_an_insertion_next_to_a_result_written_early_cuts_nothing_off(session, mend, read):
    """The line that follows in the conversation gets the new parent, and not the line that follows in the file."""
    path = session("claude_code/dangling-next-to-a-result-written-early")
    report = mend(path)
    lines = {line["uuid"]: line["parentUuid"] for line in read(path)}
    added = json.loads(report.added[0].line)
    assert (lines[added["uuid"]], lines["a2"], lines["r2"], lines["a3"]) == ("a1", added["uuid"], "a2", "r2")


@pytest.mark.parametrize("order", [[1, 0], [0, 2, 1]])
def test_the_result_of_a_call_that_exists_is_never_dropped(order, tmp_path, mend):
    """pi would not send a result that comes too early or too late, but its text is what the tool did."""
    said = {"role": "assistant", "stopReason": "toolUse", "content": []}
    call = {**said, "content": [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}]}
    result = {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [{"type": "text", "text": "real"}],
    }
    entries = [{"type": "session", "id": "s", "cwd": "/nowhere"}]
    entries += [{"type": "message", "message": [call, result, said][at]} for at in order]
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    for _ in range(2):
        report = mend(path, drop_orphaned=True)
        assert report.dropped == []
        assert "stays" in report.notes[0]
    assert '"real"' in path.read_text()


CUT = b'{"timestamp":"2026-01-02T03:04:07.000Z","type":"event_msg","payload":{"type":"agent_message","message":"\xc3'


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_tail_cut_inside_a_character_is_moved_though_no_result_is_missing(end, session, mend):
    """Codex refuses the whole file for it; in place nothing before it changes."""
    path = session("codex/output-long-after-its-call")
    whole = path.read_bytes()
    path.write_bytes(whole + CUT + end)
    looked = mend(path, write=False)
    assert (looked.state, looked.moved) == ("found", [whole.count(b"\n") + 1])
    report = mend(path)
    assert (report.state, path.read_bytes()) == ("repaired", whole)
    assert Path(report.torn_moved_to).read_bytes() == CUT + b"\n"
    assert mend(path).state == "clean"


def test_a_line_torn_in_the_middle_of_a_rollout_is_moved_in_a_copy_only(session, mend):
    """In place the offsets of later lines would shift."""
    path = session("codex/output-long-after-its-call")
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, CUT, b"\n", *rest]))
    assert mend(path).state == "refused"
    report = mend(path, in_place=False)
    assert Path(report.written).read_bytes() == b"".join([first, *rest])
    assert mend(path, in_place=False).notes[-1] == "the repaired copy already exists"


def test_a_rollout_with_a_whole_line_that_is_not_utf_8_is_refused(session, mend):
    """Codex refuses it, and no line may be removed to please it."""
    path = session("codex/output-long-after-its-call")
    path.write_bytes(path.read_bytes() + CUT + b'"}}\n')
    report = mend(path)
    assert report.state == "refused"
    assert "not UTF-8" in report.reason
