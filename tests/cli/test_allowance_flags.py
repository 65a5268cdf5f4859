"""The flags of approve, deny and rules that say for how many calls, for how long, and of what was seen (A18, A19)."""

import json
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from command_agents import asking
from scenes import knowing_no_agents

from supervisor import SqliteStore, open_supervisor
from supervisor.cli import main
from supervisor.core import events as e
from supervisor.core.ids import RULES

AGENTS = Path(__file__).with_name("command_agents.py")
EXACT = "exact"
APPROVED: dict[str, tuple[str, int | None, float | None, str | None] | None] = {
    # command: scope, uses, minutes and pattern of the journaled decision; None: refused, and nothing is decided
    "approve ID": ("once", None, None, None),
    "approve ID --scope session": ("session", None, None, EXACT),
    "approve ID --scope always --pattern PATTERN": ("always", None, None, EXACT),
    "approve ID --scope session --pattern {}": None,
    "approve ID --pattern PATTERN": None,
    "approve ID --uses 2": ("session", 2, None, EXACT),
    "approve ID --uses 2 --scope once": ("session", 2, None, EXACT),
    "approve ID --uses 3 --scope always": ("always", 3, None, EXACT),
    "approve ID --for 15m": ("session", None, 15, EXACT),
    "approve ID --for 1h --uses 1 --pattern PATTERN": ("session", 1, 60, EXACT),
    "approve ID --for 90s --scope always": ("always", None, 1.5, EXACT),
    "approve ID --uses 0": None,
    "approve ID --uses -1": None,
    "approve ID --uses 1.5": None,
    "approve ID --uses 1000000000000": None,
    "approve ID --for soon": None,
    "approve ID --for 0m": None,
    "approve ID --for -5m": None,
    "approve ID --for": None,
    "approve ID --until 2030-01-01": None,
    "approve ID --uses 2 --edit EDITED": None,
    "approve ID --for 5m --edit EDITED": None,
    "approve ID --scope session --edit EDITED": None,
    "approve ID --edit EDITED": ("once", None, None, None),
    "approve ID --edit EDITED --seen code": ("once", None, None, None),
    "deny ID": ("once", None, None, None),
    "deny ID --for session": ("session", None, None, EXACT),
    "deny ID --scope always --pattern PATTERN --reason no": ("always", None, None, EXACT),
    "deny ID --pattern {} --scope session": None,
    "deny ID --for 15m": None,
    "deny ID --uses 2": None,
}
ALLOWED: dict[str, tuple[str | None, int | None, float | None] | None] = {
    # command: session, uses and minutes of the journaled rule
    "allow note PATTERN": (None, None, None),
    "allow note PATTERN --uses 2": (None, 2, None),
    "allow note PATTERN --for 15m": (None, None, 15),
    "allow note PATTERN --uses 1 --for 1h --session s": ("s", 1, 60),
    "allow note PATTERN --uses 2 --pending": (None, 2, None),
    "allow note PATTERN --uses 0": None,
    "allow note PATTERN --uses x": None,
    "allow note PATTERN --uses 2.5": None,
    "allow note PATTERN --for soon": None,
    "allow note PATTERN --for 0s": None,
    "ask note PATTERN": (None, None, None),
    "ask note PATTERN --uses 2": None,
    "ask note PATTERN --for 15m": None,
    "deny note PATTERN --pending": (None, None, None),
    "deny note PATTERN --uses 2": None,
    "deny note PATTERN --for 15m": None,
}


@pytest.fixture
def waiting(tmp_path):
    """Return a function that makes a call wait for a person for each name: their approvals, by the name."""

    async def wait(names):
        async with open_supervisor(tmp_path / "state.db") as supervisor:
            await supervisor.start(asking, names, session="s")
            with anyio.fail_after(60):
                while len(found := list(await supervisor.find_approvals())) < len(names):
                    await anyio.sleep(0.01)
            return {each.arguments["name"]: each for each in found}

    with knowing_no_agents():
        yield lambda names: anyio.run(wait, names)


def journaled(tmp_path, kind, session=None):
    """Return the events of a kind of a session; None: of the whole tree."""
    store = SqliteStore(tmp_path / "state.db", create=False)
    store.open()
    try:
        sessions = [row.id for row in store.find_sessions(root="s")] if session is None else [session]
        return [row.event for each in sessions for row in store.journal(each) if isinstance(row.event, kind)]
    finally:
        store.close()


def command_line(tmp_path, *words):
    return main([*words, "--store", str(tmp_path / "state.db")])


def minutes_of(until, at):
    return None if until is None else (until - at) / timedelta(minutes=1)


def test_each_flag_of_a_decision_is_journaled_as_it_says(waiting, tmp_path, capsys):
    """What is refused decides nothing, with exit code 2 and a sentence; what is accepted is what was typed."""
    names = {f"n{place}": command for place, command in enumerate(APPROVED)}
    found = waiting([*names])
    for name, command in names.items():
        given = {"ID": found[name].id, "PATTERN": found[name].options[1].pattern, "EDITED": '{"name": "x", "count": 3}'}
        code = command_line(tmp_path, *(given.get(word, word) for word in command.split()))
        said = capsys.readouterr()
        decided = [each for each in journaled(tmp_path, e.ApprovalDecided) if each.approval == found[name].id]
        if APPROVED[command] is None:
            assert (code, decided, bool(said.err)) == (2, [], True), command
            continue
        scope, uses, minutes, pattern = APPROVED[command]
        (event,) = decided
        exact = None if pattern is None else given["PATTERN"]
        assert (event.scope, event.uses, minutes_of(event.until, event.at)) == (scope, uses, minutes), command
        assert (code, event.pattern, event.decision) == (0, exact, command.split()[0]), command
        assert ("EDITED" in command) is (event.edited is not None)


def test_each_flag_of_a_rule_is_journaled_as_it_says(waiting, tmp_path, capsys):
    """An end belongs to an allow alone; with --pending the call that waits is decided, too."""
    names = {f"n{place}": command for place, command in enumerate(ALLOWED)}
    found = waiting([*names])
    for name, command in names.items():
        before = len(journaled(tmp_path, e.RuleAdded, RULES))
        given = {"PATTERN": found[name].options[1].pattern}
        code = command_line(tmp_path, "rules", *(given.get(word, word) for word in command.split()))
        said, added = capsys.readouterr(), journaled(tmp_path, e.RuleAdded, RULES)[before:]
        if ALLOWED[command] is None:
            assert (code, added, bool(said.err)) == (2, [], True), command
            continue
        session, uses, minutes = ALLOWED[command]
        (event,) = added
        assert (code, event.rule.kind, event.rule.session) == (0, command.split()[0], session), command
        assert (event.rule.uses, event.rule.pattern) == (uses, given["PATTERN"]), command
        until = minutes_of(event.rule.until, event.at)
        assert until == pytest.approx(minutes, abs=0.5) if minutes else until is None, command
        decided = [each for each in journaled(tmp_path, e.ApprovalDecided) if each.approval == found[name].id]
        assert bool(decided) is ("--pending" in command), command


def test_edited_arguments_count_with_the_code_of_what_their_preview_found(supervisor):
    """The first submit, a wrong code and the code of other arguments decide nothing, and print the evidence."""
    running = supervisor.start("run", f"{AGENTS}:removing", '"a"', "--session", "s", "--wait")
    next(line for line in running.stderr if line.split()[:1] == ["session"])
    (approval,) = (each["id"] for each in supervisor("approvals", "--json").json)

    def approve(name, *flags):
        return supervisor("approve", approval, "--edit", json.dumps({"name": name}), "--json", *flags)

    first, other = approve("b"), approve("c")
    assert (first.code, first.json["kind"], first.json["evidence"]["text"]) == (4, "unseen", "removes b")
    assert first.json["seen"] != other.json["seen"]
    for wrong in ("nonsense", other.json["seen"]):
        assert approve("b", "--seen", wrong).json["kind"] == "unseen", wrong
    told = supervisor("approve", approval, "--edit", '{"name": "b"}')
    assert "removes b" in told.out
    assert f"--seen {first.json['seen']}" in told.err
    seen = ("--seen", first.json["seen"])
    assert approve("b", *seen, "--uses", "2").code == 2
    assert approve("b", *seen).json["kind"] == "accepted"
    out, _ = running.communicate(timeout=60)
    assert "removed b" in out
