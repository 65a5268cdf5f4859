"""rules, rules allow, ask, deny, revoke, and approve --scope: standing decisions, and never a call's own (A7, A4)."""

import json
import re
from pathlib import Path

import pytest

from supervisor.core.marker import CALL_MARKER

AGENTS = Path(__file__).with_name("command_agents.py")
IT = '{"count":1,"name":"it"}'


def run(supervisor, *names, session="s"):
    """Run the agent that asks once for each name. Return the results of its calls, None if it waits."""
    answer = supervisor("run", f"{AGENTS}:asking", str(list(names)).replace("'", '"'), "--session", session, "--json")
    return answer.json["outcome"] and answer.json["outcome"]["value"]


def test_a_call_that_a_rule_allows_is_not_asked_until_the_rule_is_revoked(supervisor):
    """A6, A7: also in a store that does not exist yet. The list says who added a rule, when and where."""
    added = supervisor("rules", "allow", "note", '{"name": "it", "count": 1}', "--by", "ana", "--json").json
    assert run(supervisor, "it") == ["noted it 1"]
    (rule,) = supervisor("rules", "--json").json
    assert rule == added
    assert (rule["kind"], rule["tool"], rule["pattern"], rule["session"]) == ("allow", "note", IT, None)
    assert (rule["by"], rule["origin"], rule["approval"]) == ("ana", "command line", None)
    assert rule["added_at"].endswith("Z")
    assert supervisor("rules", "revoke", rule["id"][:-1] + "!").code == 5
    assert supervisor("rules", "revoke", rule["id"], "--json").json == rule
    assert supervisor("rules", "--json").json == []
    assert supervisor("rules", "revoke", rule["id"]).code == 5
    assert run(supervisor, "it", session="t") is None


def test_an_unreviewed_prefix_is_allowed_by_a_flag(supervisor):
    """The list marks it. A reviewed prefix needs no --unreviewed; one that runs anything cannot have it."""
    assert supervisor("rules", "allow", "shell", "frob show *").code == 2
    assert supervisor("rules", "allow", "shell", "python x.py *", "--unreviewed").code == 2
    assert supervisor("rules", "allow", "shell", "git status *", "--unreviewed").code == 0
    assert supervisor("rules", "allow", "shell", "frob show *", "--unreviewed").code == 0
    found = {rule["pattern"]: rule["unreviewed"] for rule in supervisor("rules", "--json").json}
    assert found == {"git status *": False, "frob show *": True}
    assert "unreviewed" in supervisor("rules").out


def test_a_call_that_a_rule_denies_does_not_run_although_a_person_approves_it(supervisor):
    """A9: deny beats everything, also a rule that was added after the call had asked."""
    (approval,) = supervisor.ask("it")
    assert supervisor("rules", "deny", "note", '{"name": "it"}').code == 0
    assert supervisor("approve", approval).code == 0
    assert "denied" in supervisor("resume", "asking", "--json").json["outcome"]["value"][0]


def test_an_allowance_is_given_and_listed_with_what_is_left(supervisor):
    """A19: by --uses or --for, of the session if no scope is given. What is offered first is listed first."""
    (approval,) = supervisor.ask("it")
    listed = supervisor("approvals").out
    assert -1 < listed.find("--uses 10 or --for 15m, for: ") < listed.find("--scope session|always, for: ")
    for wrong in (("--uses", "0"), ("--for", "soon"), ("--uses", "2", "--edit", "{}")):
        assert supervisor("approve", approval, *wrong).code == 2
    told = supervisor("approve", approval, "--uses", "2", "--for", "1h", "--by", "ana")
    assert (told.code, "the next 2 times, for 60 minutes" in told.err) == (0, True)
    (rule,) = supervisor("rules", "--json").json
    assert (rule["session"], rule["uses"], rule["used"], rule["ended"]) == ("asking", 2, 0, False)
    assert "2 of 2 calls left, until " in supervisor("rules").out
    assert supervisor("rules", "allow", "note", IT, "--uses", "3", "--for", "5m").code == 0
    assert supervisor("rules", "allow", "note", IT, "--uses", "0").code == 2
    assert [rule["uses"] for rule in supervisor("rules", "--json").json] == [2, 3]
    assert "for 2 calls until" in supervisor("audit").out or ", for 2 calls, until" in supervisor("audit").out


@pytest.mark.parametrize(
    ("option", "granted"),
    [
        (("--uses", "10"), ["npm run check *", "mix test *"]),
        (("--for", "15m"), ["npm run check *", "mix test *"]),
        (("--scope", "session", "--pattern", "2"), ["npm run check *", "mix test *"]),
        (("--scope", "always"), ["npm run check a && mix test b"]),
    ],
)
def test_an_option_grants_the_pattern_that_is_listed_for_it(supervisor, option, granted):
    """What a person reads is what holds, also of patterns that nobody would type."""
    command = "npm run check a && mix test b"
    started = supervisor("run", f"{AGENTS}:running", command, "--session", "s")
    (asked,) = supervisor("approvals", "--json").json
    offered = [
        re.split(r" {2,}longer +", line)[-1] for line in supervisor("approvals").out.split("\n") if "longer" in line
    ]
    assert [each.partition(", for:")[0] for each in offered] == [
        "--uses 10 or --for 15m",
        "--scope session|always",
        "--scope session|always --pattern 2",
    ]
    assert started.err.count("    │ mix test *") == 2  # once for the allowances, and once for the scopes
    assert supervisor("approve", asked["id"], "--scope", "session", "--pattern", "3").code == 2
    assert supervisor("approve", asked["id"], *option).code == 0
    assert [
        rule["pattern"].removeprefix(f"in {asked['cwd']}: ") for rule in supervisor("rules", "--json").json
    ] == granted


def test_a_decision_with_scope_makes_a_rule_out_of_its_approval(supervisor):
    """A7: for the session's tree alone; both ways of looking show what is offered and what stands."""
    (approval,) = supervisor.ask("it")
    (asked,) = supervisor("approvals", "--json").json
    assert asked["options"][1:] == [{"scope": scope, "pattern": IT} for scope in ("session", "always")]
    assert IT in supervisor("approvals").out
    assert supervisor("approve", approval, "--scope", "always", "--pattern", "{}").code == 2
    told = supervisor("approve", approval, "--scope", "session", "--by", "ana", "--json").json
    (rule,) = supervisor("rules", "--json").json
    assert (told["kind"], told["rule"]) == ("accepted", rule["id"])
    assert (rule["session"], rule["approval"]) == ("asking", approval)
    assert (rule["origin"], rule["by"]) == ("decision", "ana")
    assert supervisor("approve", approval, "--scope", "session").code == 0
    assert supervisor("approve", approval).code == 4
    assert run(supervisor, "it", session="other") is None
    audit = supervisor("audit", "--json").json
    (added,) = [entry for entry in audit if entry["event"] == "RuleAdded"]
    assert (added["by"], added["approval"], added["rule"]["id"]) == ("ana", approval, rule["id"])
    lines = supervisor("rules").out + supervisor("audit").out
    assert lines.count(rule["id"]) == 2
    assert lines.count(IT) == 2


def test_a_rule_may_be_for_one_sessions_tree(supervisor):
    """A7: named by its root or by a sub-agent's session; an unknown one is said to be unknown."""
    supervisor.ask("first")
    child = supervisor("sessions", "--json").json[1]["id"]
    assert supervisor("rules", "allow", "note", IT, "--session", "nosuch").code == 5
    rule = supervisor("rules", "deny", "note", "--session", child, "--json").json
    assert (rule["kind"], rule["session"], rule["pattern"]) == ("deny", "asking", None)


@pytest.mark.parametrize("command", [["allow", "note", IT], ["ask", "note"], ["deny", "note"], ["revoke", "ID"]])
def test_rules_are_not_changed_from_inside_a_supervised_call(supervisor, command):
    """A4: the marker in the environment refuses changes; listing rules is allowed."""
    rule = supervisor("rules", "allow", "note", IT, "--json").json
    arguments = [rule["id"] if word == "ID" else word for word in command]
    assert supervisor("rules", *arguments, **{CALL_MARKER: "call:shell:0#1"}).code == 6
    assert supervisor("rules", "--json", **{CALL_MARKER: "call:shell:0#1"}).json == [rule]


def test_a_command_refused_inside_a_call_makes_no_store(supervisor):
    """A4: it is refused before a store is opened."""
    assert supervisor("rules", "allow", "note", IT, **{CALL_MARKER: "call:shell:0#1"}).code == 6
    assert not supervisor.store.exists()


def test_rules_are_not_changed_from_below_an_owner_of_the_store(supervisor):
    """A4: without the marker, too, a call cannot allow itself anything."""
    answer = supervisor("run", f"{AGENTS}:cheating", '["rules", "allow", "note", "{}"]', "--json")
    assert answer.json["outcome"]["value"] == 6
    assert supervisor("rules", "--json").json == []


def test_a_rule_with_pending_prints_what_it_has_decided(supervisor):
    """In the tree that no process runs. What it does not cover waits on."""
    supervisor.ask("a", "b")
    (first, second) = supervisor("approvals", "--json").json
    pattern = json.dumps(first["arguments"])
    done = supervisor("rules", "allow", first["tool"], pattern, "--pending")
    assert (done.code, first["id"] in done.out, second["id"] in done.out) == (0, True, False)
    assert [each["id"] for each in supervisor("approvals", "--json").json] == [second["id"]]
