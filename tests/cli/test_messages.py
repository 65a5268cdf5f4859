"""`supervisor send`: what becomes of a message, and which process goes on with it."""

from pathlib import Path

import pytest

from supervisor.core.marker import CALL_MARKER

AGENTS = Path(__file__).with_name("command_agents.py")


def test_a_message_to_an_idle_session_begins_a_turn(supervisor):
    """No process runs the session, so the command says how to go on; `show` tells who sent what."""
    assert supervisor("run", f"{AGENTS}:chatting", '"hi"', "--session", "s").code == 0
    answer = supervisor("send", "s", "and now", "--by", "ann")
    assert (answer.code, "supervisor resume s" in answer.err) == (0, True)
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == "and now after 0 of 2"
    shown = supervisor("show", "s").out
    assert "ann says: and now" in shown
    assert "says: hi after 0 of 0" in shown


def test_a_message_after_an_approval_names_the_approval_that_it_waits_for(supervisor):
    """R7: it is kept, and the command names the approval to decide; then `receive` returns it."""
    assert supervisor("run", f"{AGENTS}:listening", "--session", "s").code == 3
    (approval,) = supervisor("approvals", "--json").json
    receipt = supervisor("send", "s", "hello", "--json").json
    assert (receipt["kind"], receipt["running"]) == ("kept", False)
    assert [each["id"] for each in receipt["waiting_for"]] == [approval["id"]]
    assert approval["id"] in supervisor("send", "s", "again").err
    assert supervisor("approve", approval["id"]).code == 0
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == "heard hello"


def test_a_message_to_a_receiver_is_delivered(supervisor):
    """The run is passivated, and goes on with the message at the next start."""
    assert supervisor("run", f"{AGENTS}:listening", "--session", "s", "--unattended", "allow").code == 3
    assert supervisor("send", "s", "hello", "--json").json["kind"] == "delivered"
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == "heard hello"


@pytest.mark.parametrize(
    ("session", "text", "code"), [("nobody", "hi", 5), ("s", "  ", 2), ("s", "hi", 2), ("s", "\udcff", 2)]
)
def test_a_message_that_no_run_could_receive_is_refused(supervisor, session, text, code):
    """An agent that takes no text, an unknown session, an empty text: one clear line."""
    assert supervisor("run", f"{AGENTS}:printing", "{}", "--session", "s").code == 0
    answer = supervisor("send", session, text)
    assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (code, "", 1), answer


def test_nothing_that_a_call_runs_speaks_for_a_person(supervisor):
    """A process that a supervised call started may not send, as it may not decide (A4)."""
    assert supervisor("run", f"{AGENTS}:chatting", '"hi"', "--session", "s").code == 0
    assert supervisor("send", "s", "yes", **{CALL_MARKER: "1"}).code == 6


def test_chat_words_decide_and_everything_else_is_sent(supervisor):
    """A12: before a card was shown, "yes" and "approve all" list what waits; with any id, "yes" decides."""
    first, second = supervisor.ask("x", "y", session="s")
    listed = supervisor("send", "s", "yes")
    assert (listed.code, f"yes {first[16:24]})" in listed.out, f"yes {second[16:24]})" in listed.out) == (3, True, True)
    assert supervisor("send", "s", f"no {first[16:24]}", "--by", "ana").code == 0
    told = supervisor("send", "s", "approve all", "--json")
    assert (told.code, told.json["kind"], [each["id"] for each in told.json["approvals"]]) == (3, "listed", [second])
    assert supervisor("send", "s", f"approve {second}").code == 0
    assert supervisor("send", "s", f"yes {first}").code == 4
    assert supervisor("send", "s", f"yes {'a' * 32}").code == 5
    every = supervisor("approvals", "--all", "--json").json
    assert {each["id"]: each["status"] for each in every} == {first: "denied", second: "approved"}


def test_messages_of_a_session_are_shown_whole_and_once_while_it_goes_on(supervisor):
    """`ctx.send` and results of turns are shown, escaped; those of sub-agents are not. The last result is printed."""
    first = supervisor("run", f"{AGENTS}:saying", '"ask"', "--session", "s")
    assert "said ask" in first.err
    assert "end⟨U+001B⟩[2J" in first.err
    supervisor("send", "s", "more")
    then = supervisor("resume", "s", "--unattended", "allow")
    assert "said ask" not in then.err
    assert "result ask" in then.err
    assert ("result more" in then.err, "for the parent" in then.err) == (False, False)
    assert then.out.count("result more") == 1
