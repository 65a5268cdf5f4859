"""approve, deny and cancel: the first decision counts, and a process that a call started never decides."""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from supervisor import Approve, Context, agent, open_supervisor, tool
from supervisor.cli import deciding
from supervisor.cli.options import PersonPlace
from supervisor.core.marker import CALL_MARKER

AGENTS = Path(__file__).with_name("command_agents.py")


@tool
async def jot(text: str) -> str:
    return f"jotted {text}"


@agent
async def jotting(ctx: Context, text: str) -> str:
    """Jots down what it is told, in each turn."""
    return (await ctx.call(jot, text)).content


def test_the_first_decision_counts_and_the_second_is_told(supervisor):
    """The same decision again is accepted; another one is a conflict that names the first decider (A3)."""
    (approval,) = supervisor.ask("it")
    assert supervisor("approve", approval, "--by", "bob", "--json").json["kind"] == "accepted"
    same = supervisor("approve", approval, "--json")
    assert (same.code, same.json["kind"], same.json["by"]) == (0, "already", "bob")
    other = supervisor("deny", approval, "--json")
    assert (other.code, other.json["kind"], other.json["by"]) == (4, "conflict", "bob")


def test_a_short_id_is_one_approval_or_names_the_candidates(supervisor):
    """Lists print from the random part, since the first characters are the tree's. No part of these decides."""
    first, second = supervisor.ask("x", "y", session="s")
    listed = supervisor("approvals").out
    assert first[16:24] in listed
    assert second[16:24] in listed
    for wrong in (first[:8], first[:16], first[16:20], "a" * 9):
        refused = supervisor("approve", wrong)
        assert (refused.code, first[16:24] in refused.err, second[16:24] in refused.err) == (5, True, True), wrong
    assert supervisor("deny", first[16:24], "--json").json["approval"] == first
    assert supervisor("approve", second[:30].upper(), "--json").json["approval"] == second


def test_many_are_listed_in_a_line_each_and_those_that_are_named_whole(supervisor):
    """A person at three in the morning finds one of forty; its page-long card is one command away."""
    ids = supervisor.ask("w", "x", "y", "z", session="s")
    listed = supervisor("approvals")
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["asking", "[s]:"],
        *([each[16:24], "note:"] for each in ids),
    ]
    whole = supervisor("approvals", ids[2][16:24], ids[0]).out
    assert [each for each in ids if each in whole] == [ids[0], ids[2]]
    assert [line.split()[-1] for line in whole.splitlines() if '"name"' in line and "longer" not in line] == ["y", "w"]
    assert (supervisor("approvals", ids[0][16:20]).code, supervisor("approvals", "--all").out.count("note:")) == (5, 4)


def test_edited_arguments_replace_all_of_the_call(supervisor):
    """An object that lacks an argument without a default, or has one twice, is refused; a whole object runs (A8)."""
    (approval,) = supervisor.ask("it")
    for wrong in ('{"count": 3}', '{"name": "x", "name": "y", "count": 3}'):
        assert supervisor("approve", approval, "--edit", wrong).code == 2
    assert supervisor("approve", approval, "--edit", '{"name": "x", "count": 3}').code == 0
    assert supervisor("resume", "asking", "--json").json["outcome"]["value"] == ["noted x 3"]


def test_a_call_that_is_not_editable_is_approved_as_it_is(supervisor):
    """`--edit` is refused with the reason, and decides nothing (A8)."""
    assert supervisor("run", f"{AGENTS}:fixing", '"it"', "--session", "fixing").code == 3
    (approval,) = [found["id"] for found in supervisor("approvals", "--json").json]
    refused = supervisor("approve", approval, "--edit", '{"name": "other"}')
    assert (refused.code, "may not be approved with other arguments" in refused.err) == (2, True)
    assert supervisor("approve", approval).code == 0
    assert supervisor("resume", "fixing", "--json").json["outcome"]["value"] == "fixed it"


def test_a_denial_gives_the_agent_its_reason(supervisor):
    """The call's result has the reason."""
    (approval,) = supervisor.ask("it")
    assert supervisor("deny", approval, "--reason", "not today").code == 0
    assert "not today" in supervisor("resume", "asking", "--json").json["outcome"]["value"][0]


def test_a_denial_for_longer_is_a_rule_that_is_listed_and_denies_the_same_call(supervisor):
    """Equal calls that wait are denied with it. The audit trail names the approval that they came through."""
    first, second = supervisor.ask("it", "it")
    told = supervisor("deny", first, "--for", "always", "--reason", "not today")
    assert (told.code, "supervisor rules revoke" in told.err) == (0, True), told
    assert supervisor("approvals", "--json").json == []
    (rule,) = supervisor("rules", "--json").json
    assert (rule["kind"], rule["exact"], rule["approval"], rule["reason"]) == ("deny", True, first, "not today")
    assert f"through {first}" in supervisor("audit").out
    both = supervisor("resume", "asking", "--json").json["outcome"]["value"]
    assert ["not today" in each for each in both] == [True, True]
    assert second in supervisor("audit").out


def test_cancel_ends_a_tree_that_no_process_runs_and_withdraws_its_approvals(supervisor):
    """`cancel` claims the tree and ends it; a later decision is told so (W8)."""
    first, second = supervisor.ask("one", "two")
    answer = supervisor("cancel", "asking", "--reason", "no longer needed", "--json")
    assert answer.code == 0, answer
    assert answer.json["outcome"]["kind"] == "cancelled"
    assert {view["status"] for view in supervisor("sessions", "--json").json} == {"completed"}
    assert supervisor("approve", first).code == supervisor("deny", second).code == 4
    assert supervisor("cancel", "asking").code == 0


class CancelsLate:
    """A supervisor in which another turn begins before a cancel comes."""

    def __init__(self, here):
        self._here = here

    def __getattr__(self, name):
        return getattr(self._here, name)

    async def cancel(self, session, **options):
        async with self.watch_approvals() as watch:
            await self.decide((await anext(watch)).id, Approve(by="olga"))
            await (await self.get_run("mine", number=1)).outcome()
            await self.send("mine", "two", by="olga")
            await anext(watch)
        await self._here.cancel(session, **options)


def test_cancel_spares_a_turn_that_begins_meanwhile(tmp_path, capsys):
    """It ends the run that it found, and says how that one has ended."""
    at = tmp_path / "state.db"

    async def begin() -> None:
        async with open_supervisor(at, agents=[jotting]) as supervisor:
            run = await supervisor.start(jotting, "one", session="mine")
            async with run.watch_approvals() as watch:
                await anext(watch)

    class Late(PersonPlace):
        @asynccontextmanager
        async def open(self, **options):
            async with super().open(**options) as here:
                yield CancelsLate(here)

    anyio.run(begin)
    assert deciding.cancel("mine", place=Late(store=str(at))) == 0
    assert "succeeded" in capsys.readouterr().out


def test_a_sub_agent_alone_can_be_cancelled_while_another_process_runs_the_tree(supervisor):
    """`cancel` of a sub-agent returns when it has ended; its siblings and its parent go on."""
    process = supervisor.start("run", f"{AGENTS}:asking", '["one", "two"]', "--session", "s", "--wait")
    lines = (line.split() for line in process.stderr)
    children = [next(words[-1] for words in lines if words[:1] == ["session"]) for _ in range(2)]
    assert supervisor("cancel", children[0], "--json").json["outcome"]["kind"] == "cancelled"
    process.communicate(timeout=60)
    assert process.returncode == 1  # the parent wanted that result


def test_a_decision_from_inside_a_supervised_call_is_refused(supervisor):
    """The marker in the environment says that a call started the process (A4). `serve` would print a token."""
    (approval,) = supervisor.ask("it")
    serve = ["serve", "--port", "0"]
    for arguments in (["approve", approval], ["deny", approval], ["resume", "--unattended", "allow"], serve):
        assert supervisor(*arguments, **{CALL_MARKER: "call:shell:0#1"}).code == 6
    assert [found["status"] for found in supervisor("approvals", "--json").json] == ["pending"]


@pytest.mark.parametrize("trick", [["approve", "ID"], ["serve", "--port", "0"]], ids=lambda words: words[0])
def test_a_decision_from_below_an_owner_of_the_store_is_refused(supervisor, trick):
    """Without the marker, too: the owner of the tree is an ancestor of the process (A4)."""
    (approval,) = supervisor.ask("it")
    words = [approval if word == "ID" else word for word in trick]
    answer = supervisor("run", f"{AGENTS}:cheating", json.dumps(words), "--json")
    assert answer.json["outcome"]["value"] == 6
    assert [found["status"] for found in supervisor("approvals", "--json").json] == ["pending"]


def test_the_id_of_a_session_leads_to_a_few_of_its_approvals(supervisor):
    """One that waits comes first, and each is a line with an id that can be given."""
    *decided, waiting = supervisor.ask(*(f"note {number}" for number in range(12)))
    supervisor("deny", *decided)
    session = supervisor("approvals", "--json").json[0]["root_session"]
    refused = supervisor("approve", session)
    first, *lines = refused.err.strip().splitlines()
    assert (refused.code, first) == (5, f"supervisor: {session} is a session, not an approval; it asked:")
    assert lines[0].split()[0] in waiting
    assert (len(lines), lines[-1]) == (11, "  and 2 more")


def test_several_calls_are_decided_by_their_ids_each_by_itself(supervisor):
    """One that was decided before, or that does not exist, stops no other; the exit code says that not all count."""
    first, second, third = supervisor.ask("a", "b", "c")
    supervisor("approve", first, "--by", "bob")
    done = supervisor("approve", first, second, "x" * 42, "--json")
    assert (done.code, [each["kind"] for each in done.json["results"]]) == (5, ["already", "accepted", "unknown"])
    assert {each["batch"] for each in done.json["results"]} == {done.json["batch"]}
    denied = supervisor("deny", second, third, "--reason", "no")
    assert (denied.code, [line.split()[0] for line in denied.out.splitlines()]) == (4, ["not", "denied"])
    assert [each["status"] for each in supervisor("approvals", "--all", "--json").json] == [
        "approved",
        "approved",
        "denied",
    ]


def test_a_session_is_approved_as_it_was_listed_and_no_call_more(supervisor):
    """`--shown` names the list: what came later waits on, and a part that was decided meanwhile is answered already.
    `--tool` lists the calls of one tool alone."""
    supervisor.ask("a", "b")
    listed = supervisor("approve", "--session", "asking", "--json")
    assert (listed.code, len(listed.json["approvals"])) == (0, 2)
    of_tools = [supervisor("approve", "--session", "asking", "--tool", each, "--json") for each in ("note", "other")]
    assert [len(each.json["approvals"]) for each in of_tools] == [2, 0]
    supervisor("approve", listed.json["approvals"][0]["id"])
    shown = ("approve", "--session", "asking", "--shown", listed.json["shown"], "--json")
    assert [each["kind"] for each in supervisor(*shown).json["results"]] == ["already", "accepted"]
    assert [each["kind"] for each in supervisor(*shown).json["results"]] == ["already", "already"]
    said = supervisor("approve", "--session", "asking", "--shown", "2-" + "0" * 40)
    assert (said.code, "list it again" in said.err) == (2, True)


def test_calls_that_wait_in_a_session_are_denied_with_one_reason(supervisor):
    """The ids are read once, printed and denied; questions stay."""
    supervisor.ask("a", "b")
    denied = supervisor("deny", "--session", "asking", "--reason", "not today")
    assert (denied.code, len(denied.out.splitlines())) == (0, 2)
    assert [each["reason"] for each in supervisor("approvals", "--all", "--json").json] == ["not today"] * 2


@pytest.mark.parametrize(
    "words",
    [
        ["approve"],
        ["deny"],
        ["approve", "x", "--session", "s"],
        ["approve", "x", "--tool", "note"],
        ["approve", "x" * 42, "y" * 42, "--edit", "{}"],
        ["approve", "x" * 42, "yes", "please"],
    ],
)
def test_a_batch_says_what_it_decides_in_one_way(supervisor, words):
    """Nothing is decided, and one line says what to give."""
    said = supervisor(*words)
    assert (said.code, said.out, len(said.err.strip().splitlines())) == (2, "", 1)


def test_spending_is_shown_and_a_budget_asks_and_is_raised(supervisor):
    """Whoever raises it: a decision about the question, or an operator before it."""
    spending = (f"{AGENTS}:spending", "4", "--session", "s")
    assert supervisor("run", *spending, "--budget", "requests=2").code == 3
    report = supervisor("usage", "s", "--by", "model", "--json").json
    assert (report["total"]["requests"], report["total"]["usd"]) == (2, 1.0)
    assert "\x1b" not in supervisor("usage").out
    assert "1.00 USD" in supervisor("show", "s").out
    conflict = supervisor("run", *spending, "--budget", "requests=3")
    assert (conflict.code != 0, "budget" in conflict.err) == (True, True)
    (question,) = supervisor("approvals", "--json").json
    assert question["arguments"] == {"requests": 4}
    assert supervisor("approve", question["id"], "--edit", '{"requests": 2}').code == 2
    assert supervisor("approve", question["id"], "--edit", '{"requests": 3}').code == 0
    assert supervisor("resume", "s").code == 3
    assert supervisor("budget", "s", "requests=2").code == 0  # it is larger already
    assert len(supervisor("approvals", "--json").json) == 1
    assert supervisor("budget", "s", "requests=40").code == 0
    assert supervisor("approvals", "--json").json == []
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == 4


@pytest.mark.parametrize(
    "limits", ["", "usd", "usd=", "usd=x", "usd=-1", "cents=3", "usd=nan", "requests=1.5", "usd=1,usd=2"]
)
def test_a_text_that_is_no_budget_is_one_clear_line(supervisor, limits):
    assert supervisor("run", f"{AGENTS}:spending", "4", "--session", "s").code == 0
    refused = supervisor("budget", "s", limits)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)


def test_a_person_is_on_what_waits_or_hears_of_it_later(supervisor):
    """Neither decides: without ids both mean what waits now, of one session or of all (A10)."""
    first, second = sorted(supervisor.ask("x", "y", session="s"))
    said = supervisor("ack", "--by", "bob", "--json")
    assert sorted(said.json["approvals"]) == [first, second]
    assert supervisor("ack", first[16:24], "--by", "cleo").code == 0
    assert supervisor("snooze", "--session", "s", "--until", "2100-01-01T07:00Z", "--by", "bob", "--json").code == 0
    assert supervisor("snooze", "--session", "other", "--until", "07:00", "--json").json == {"approvals": []}
    found = {each["id"]: each for each in supervisor("approvals", "--json").json}
    assert [found[each]["acknowledged"]["by"] for each in (first, second)] == ["cleo", "bob"]
    assert {each["status"] for each in found.values()} == {"pending"}
    assert {each["snoozed"][0]["by"] for each in found.values()} == {"bob"}
    assert supervisor("snooze", first, "--until", "later").code == 2
    supervisor("deny", first)
    assert supervisor("ack", first).code == 4
