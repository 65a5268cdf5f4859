"""`supervisor answer`: questions from the command line."""

import json
import shlex
from pathlib import Path

AGENTS = Path(__file__).with_name("command_agents.py")


def pending(supervisor):
    (question,) = supervisor("approvals", "--json").json
    return question


def test_questions_are_shown_answered_and_gone_on_with(supervisor):
    """Answers are a choice, yes or no, JSON, or a denial. An invalid answer leaves the question open: exit code 2."""
    assert supervisor("run", f"{AGENTS}:questioning", "--session", "s").code == 3
    steps = [
        (["answer", "elsewhere"], ["answer", "a b"]),
        ([], ["answer", "no"]),
        ([], ["answer", '{"a": 2, "b": 3}']),
        (["approve"], ["deny", "--reason", "no names"]),
    ]
    for wrong, (right, *value) in steps:
        question = pending(supervisor)
        if wrong:
            refused = supervisor(wrong[0], question["id"], *wrong[1:])
            assert (refused.code, len(refused.err.strip().splitlines())) == (2, 1), refused
        told = supervisor(right, question["id"], *value, "--by", "ana")
        assert (told.code, "supervisor resume s" in told.err) == (0, True), told
        last = supervisor("resume", "s", "--json")
    assert last.json["outcome"]["value"] == ["a b", "False", "5", "nobody: no names"]
    every = supervisor("approvals", "--all", "--json").json
    assert [each["answer"] for each in every] == ["a b", False, {"a": 2, "b": 3}, None]
    assert [each["decision"] for each in every] == ["answer", "answer", "answer", "deny"]


def test_a_question_is_read_in_lists_stories_and_the_audit_trail(supervisor):
    """`approvals` shows its choices; its lines cannot look like ours. A second answer is a conflict."""
    assert supervisor("run", f"{AGENTS}:questioning", "--session", "s").code == 3
    question = pending(supervisor)
    listed = supervisor("approvals")
    assert "“a b”" in listed.out
    assert not any(line.strip() == "[approved]" for line in listed.out.splitlines())
    assert "supervisor answer ID VALUE" in listed.err
    assert supervisor("answer", question["id"], "staging", "--by", "ana", "--json").json["status"] == "answered"
    assert supervisor("answer", question["id"], "a b", "--by", "bob").code == 4
    for command in (["show", "s"], ["audit"], ["audit", "--text", "environm", "--by", "ana", "--decided", "answered"]):
        told = supervisor(*command).out
        assert "Which environment?" in told
        assert ("answered by ana" in told, ": staging" in told) == (True, True)
    assert (nothing := supervisor("audit", "--by", "bob")).out == "", nothing
    assert "answered “staging” by ana" in supervisor("approvals", "--all").out


def test_a_run_started_unattended_asks_no_person(supervisor):
    """A6: `--unattended deny` leaves questions unanswered, and the agent is told so; `allow` answers none."""
    answer = supervisor("run", f"{AGENTS}:questioning", "--session", "s", "--unattended", "allow")
    assert (answer.code, pending(supervisor)["status"]) == (3, "pending")
    answer = supervisor("run", f"{AGENTS}:questioning", "--session", "t", "--unattended", "deny")
    assert (answer.code, "--unattended deny" in answer.err) == (1, True), answer


def test_every_command_on_a_card_makes_its_decision_with_any_choice(supervisor):
    """Also choices that are hard to type or look like an option. `send` with the id answers, too."""
    choices = ["yes\x1b[2J", "no\nno", "--by=root", "it's"]
    asked = supervisor("run", f"{AGENTS}:choosing", json.dumps(choices), "--session", "s")
    assert (asked.code, "\x1b" in asked.err, "supervisor approve" in asked.err) == (3, False, False)
    assert "supervisor approve" not in supervisor("approvals").err
    lines = [line.partition(": supervisor ")[2] for line in asked.err.splitlines() if ": supervisor answer" in line]
    commands = [shlex.split(line) for line in lines if " VALUE" not in line]
    assert len(commands) == len(choices) ** 2
    for n in range(len(choices)):
        assert supervisor(*commands[n * len(choices) + n]).code == 0
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == choices
