"""Pairing calls and results: the rules that every format, and our own sessions, share."""

from supervisor.core.sessions.transcript import Pairing, is_synthesised_text


def told(*steps, unique=(), **options):
    """Give a pairing a conversation, one step for each position: calls, a result, words, or a message that failed."""
    pairing = Pairing(**options)
    for at, (what, *keys) in enumerate(steps):
        if what in ("frame", "failed"):
            pairing.frame(at, skipped=what == "failed")
            for key in keys:
                pairing.call(at, key)
        elif what == "cut off":
            pairing.frame(at)
            pairing.call(at, *keys, answerable=False)
        elif what == "result":
            pairing.result(at, *keys)
        elif what == "forget":
            pairing.forget()
        else:
            pairing.said(at)
    return pairing.findings(unique)


def places(findings):
    return [(call.key, call.at, call.after, call.is_tail) for call in findings.dangling]


def test_a_call_without_a_result_dangles_after_its_message():
    """At the end of a conversation its result may be appended."""
    assert places(told(("said",), ("frame", "a"))) == [("a", 1, 1, True)]


def test_the_place_of_a_result_is_after_its_siblings_results():
    """Results of one message are together, before the person's next message."""
    assert places(told(("frame", "a", "b"), ("result", "a"), ("said",))) == [("b", 0, 1, False)]


def test_a_result_after_the_assistants_next_message_is_too_late():
    """A model accepts results only between two messages of the assistant."""
    findings = told(("frame", "a"), ("frame",), ("result", "a"))
    assert places(findings) == [("a", 0, 0, False)]
    assert [orphaned.at for orphaned in findings.orphaned] == [2]


def test_the_result_of_a_unique_call_may_be_anywhere():
    """It may be written before its call, or after the assistant's next message; one that has no call is orphaned."""
    findings = told(("result", "a"), ("frame", "a", "b"), ("frame",), ("result", "b"), ("result", "c"), unique="abc")
    assert (findings.dangling, [orphaned.key for orphaned in findings.orphaned]) == ([], ["c"])


def test_two_calls_with_one_id_need_two_results():
    """Occurrences count, not ids."""
    findings = told(("frame", "a", "a"), ("result", "a"))
    assert [(call.at, call.nth) for call in findings.dangling] == [(0, 1)]
    assert not told(("frame", "a", "a"), ("result", "a"), ("result", "a")).orphaned


def test_a_failed_message_neither_begins_nor_ends_a_frame():
    """It is not sent: the result after it belongs to the message before, and its own calls need none."""
    findings = told(("frame", "a"), ("failed", "b"), ("result", "a"), ("result", "b"))
    assert (places(findings), findings.unanswerable) == ([], 1)
    assert [orphaned.key for orphaned in findings.orphaned] == ["b"]


def test_a_call_that_was_cut_off_is_not_answered_but_may_have_been():
    """If the maker answered it all the same, nothing is missing."""
    assert told(("cut off", "a")).unanswerable == 1
    answered = told(("cut off", "a"), ("result", "a"))
    assert (answered.unanswerable, answered.orphaned) == (0, [])


def test_a_held_call_is_open_and_not_dangling():
    """Its approval is pending, or a run executes it: a repair must not answer it."""
    findings = told(("frame", "a", "b"), held={"a"})
    assert (findings.held, [call.key for call in findings.dangling]) == (1, ["b"])


def test_a_real_result_replaces_a_synthesised_one():
    """The late one is the answer and the other is orphaned; of two real ones the first counts."""
    steps = [("frame", "a"), ("result", "a"), ("result", "a")]
    assert [o.at for o in told(*steps, is_synthesised=lambda at: at == 1).orphaned] == [1]
    assert [o.at for o in told(*steps).orphaned] == [2]


def test_a_message_that_goes_on_later_keeps_its_calls():
    """One reply may come in pieces, with another conversation's lines between."""
    pairing = Pairing()
    for at, (name, call) in enumerate([("m", "a"), ("n", "b"), ("m", "c")]):
        pairing.frame(at, name)
        pairing.call(at, call)
    pairing.result(3, "a")
    assert [call.key for call in pairing.findings().dangling] == ["b", "c"]


def test_without_frames_a_result_may_be_anywhere_after_its_call():
    """Codex matches by id only, and wants the output directly after the call."""
    findings = told(("frame", "a", "b"), ("said",), ("frame",), ("result", "b"), framed=False)
    assert places(findings) == [("a", 0, 0, False)]


def test_a_compacted_call_neither_dangles_nor_is_answered():
    """No model sees it again."""
    findings = told(("frame", "a"), ("result", "x"), ("forget",), ("result", "a"))
    assert (places(findings), [orphaned.at for orphaned in findings.orphaned]) == ([], [3])


def test_results_of_every_repairer_are_recognised():
    """Ours, OpenClaw's old and new, Claude Code's, pi's and Codex's; and no output of a tool."""
    known = ["[tool execution lost — session was interrupted]\nmore", "[openclaw] missing tool result in session"]
    known += ["[clawdbot] missing tool result", "No result provided", "aborted"]
    assert all(is_synthesised_text(text) for text in known)
    assert not any(is_synthesised_text(text) for text in ["aborted by user", "", "ok"])
