"""What waits in the recorded stores `calls` and `jobs` is shown and goes on with today's code."""

import anyio
import crossing_agents
import pytest
from crossed import CROSSINGS, MESSAGES, decide_all, moved_to, opened, statuses, unpacked

from supervisor import AgentSpec, Approve, RunBlocked
from supervisor.testing import check_replay

pytestmark = pytest.mark.anyio
AGENTS = [value for value in vars(crossing_agents).values() if isinstance(value, AgentSpec)]
WAITING = {
    "blocked": ["deploy"],
    "branches": ["deploy"] * 4,
    "built": ["deploy"],
    "choices": ["Which one?"],
    "cleaning": ["deploy"],
    "own": ["deploy"],
    "passive": ["deploy"] * 2,
    "patched": ["deploy"],
    "saved": ["deploy"],
    "schema": ["Which release?"],
    "secret": ["publish"],
    "sub": ["helper"],
    "text": ["Which environment?"],
    "timer": ["deploy"],
    "tree": ["deploy"] * 2,
    "turns": ["deploy"],
}
"""What each tree waits for people with."""
RESULTS = {
    "always-rule": ["deployed i", "go", "deployed i"],
    "blocked": "deployed m",
    "branches": ["deployed named", "deployed other", "deployed same", "deployed same"],
    "built": "deployed b.tar",
    "choices": "staging",
    "cleaning": ["deployed k", "deployed l"],
    "dying-approved": ["ok", "deployed s"],
    "executing": ["interrupted"],
    "expired": "no answer",
    "fork": ["ok", "deployed finished"],
    "own": ["ok", "deployed a"],
    "passive": [["ok", "deployed u"], ["ok", "deployed v"]],
    "passive-sleep": "slept",
    "patched": "deployed j.tar",
    "saved": "deployed g.tar",
    "schema": "beta 1.2.3 2026-11-24 2 True",
    "secret": "published site",
    "session-rule": ["deployed h", "go", "deployed h"],
    "sleep": "slept",
    "sub": "c",
    "talk": "deployed go",
    "text": "production",
    "timer": "expired True",
    "tree": [["ok", "deployed d"], ["ok", "deployed e"]],
    "turns": "2: deployed second",
    "unbegun-answered": "production",
    "unbegun-approved": ["ok", "deployed p"],
    "unbegun-denied": ["denied"],
    "unbegun-edited": ["ok", "deployed edited"],
}
"""How each session ends; of a call without an effect only the kind of its result."""
DEPLOYED = "a 1,b.tar 2,d 1,e 1,edited 3,g.tar 1,go 1,h 1,i 1,j.tar 1,k 1,l 1,m 1,named 1,other 1,p 1,s 1,same 1,same 1"
DEPLOYED += ",second 1,u 1,v 1"
EFFECTS = sorted([f"deploy {each}" for each in DEPLOYED.split(",")] + ["note c", "note cleaned", "publish site"])
"""What decisions and messages cause; what had happened before is not done again."""


@pytest.fixture(params=CROSSINGS)
def crossing(request):
    crossing_agents.effects.clear()
    return request.param


@pytest.fixture(params=["sqlite", "postgres"])
def path(request, crossing, tmp_path):
    """Where the recorded store is: its file, or one on PostgreSQL that has its journals."""
    file = unpacked(crossing, "calls", tmp_path)
    return file if request.param == "sqlite" else moved_to(request.getfixturevalue("patient"), file)


async def test_the_lists_show_what_waits(path):
    """By its tree, with what is asked; a secret stays masked."""
    async with opened(path) as supervisor:
        found: dict[str, list[str]] = {}
        for each in await supervisor.find_approvals(limit=None):
            found.setdefault(each.root_session, []).append(each.tool or each.question)
            assert "hunter2" not in str(each)
        assert found == WAITING
        assert statuses(await supervisor.find_sessions(limit=None)) >= {
            *(("own", "waiting_approval"), ("passive", "waiting_approval"), ("sleep", "active"), ("talk", "active")),
            *(("blocked", "blocked"), ("failed", "error"), ("stopped", "completed"), ("done", "completed")),
        }
    assert crossing_agents.effects == []


async def test_each_effect_happens_once_after_its_decision(path):
    """All that waits goes on together: calls, questions, timers, turns, passive trees, saved states, forks."""
    async with opened(path) as supervisor, anyio.create_task_group() as tasks:
        runs = await supervisor.resume_all()
        tasks.start_soon(decide_all, supervisor)
        for session in MESSAGES:
            await supervisor.send(session, "go", by="ana")
        outcomes = {run.session: await run.outcome() for run in runs}
        tasks.cancel_scope.cancel()
    assert {each.kind for each in outcomes.values()} == {"succeeded"}
    values = {session: outcome.value for session, outcome in outcomes.items()}
    for session in ("executing", "unbegun-denied"):
        values[session] = values[session][:1]
    assert values == RESULTS
    assert sorted(each for each in crossing_agents.effects if each != "note slept") == EFFECTS
    assert crossing_agents.effects.count("note slept") == 2


async def test_nothing_runs_before_a_person_has_decided(path):
    """What is resumed shows the same approvals again, with their ids; only what was decided before has effects."""
    async with opened(path) as supervisor:
        before = {each.id for each in await supervisor.find_approvals(limit=None)}
        expiring = {each.id for each in await supervisor.find_approvals() if each.root_session == "timer"}
        runs = {run.session: run for run in await supervisor.resume_all()}
        for session in ("unbegun-approved", "unbegun-edited", "unbegun-denied", "dying-approved", "sleep", "timer"):
            await runs[session].outcome()
        await runs["expired"].outcome()
        assert {each.id for each in await supervisor.find_approvals(limit=None)} == before - expiring
    decided = ["deploy edited 3", "deploy p 1", "deploy s 1"]
    assert sorted(each for each in crossing_agents.effects if each != "note slept") == decided


async def test_a_blocked_run_stays_listed_and_blocked_while_the_code_does_not_follow(path, monkeypatch):
    """It names the entry where the code parts; and its approval can be decided."""
    monkeypatch.setattr(crossing_agents, "is_changed", True)
    async with opened(path) as supervisor:
        (view,) = await supervisor.find_sessions(status="blocked")
        assert (view.id, view.blocked.why, view.blocked.entry) == ("blocked", "path", 4)
        with pytest.raises(RunBlocked):
            await (await supervisor.resume("blocked")).outcome()
        (asked,) = await supervisor.find_approvals(session="blocked")
        assert (asked.blocked, (await supervisor.decide(asked.id, Approve(by="ana"))).is_accepted) == (True, True)
    assert crossing_agents.effects == []


async def test_rules_of_each_scope_stand(path):
    """Of a person, of a decision for ever and for a session; a new session asks where no rule is about its call."""
    async with opened(path) as supervisor:
        rules = {(rule.kind, rule.tool, rule.session, rule.origin) for rule in await supervisor.find_rules()}
        assert ("deny", "rm", None) in {rule[:3] for rule in rules}
        assert not [rule for rule in rules if rule[1] == "mv"]
        (kept,) = [rule for rule in rules if rule[:3] == ("allow", "deploy", None)]
        ruled = await supervisor.start(crossing_agents.caller, "i")
        assert await ruled.result() == ["ok", "deployed i"]
        asking = await supervisor.start(crossing_agents.caller, "h")
        async with asking.watch_approvals() as asked:
            assert (await anext(asked)).arguments == {"target": "h", "count": 1}
    assert (kept[3], crossing_agents.effects) == ("decision", ["deploy i 1"])


async def test_ended_sessions_are_retried_forked_and_read(path):
    """A failed run, a finished one, and the transcript of what was said."""
    async with opened(path) as supervisor:
        again = await supervisor.retry("failed", by="ana")
        assert (await again.outcome()).kind == "failed"
        entries = await supervisor.find_entries("done")
        assert (await supervisor.fork("done", before=len(entries) - 1, new="other", by="ana")).session == "other"
        said = [(each.kind, each.text) for each in await supervisor.get_transcript("turns")]
        assert ("sent", "1: deployed first") in said
        assert ("received", "second") in said
        assert len(await supervisor.find_audit(limit=None)) > 20
    assert crossing_agents.effects == []


async def test_the_agents_follow_the_journals(path):
    """As `supervisor check` says it of each session that is open."""
    async with opened(path) as supervisor:
        views = await supervisor.find_sessions(limit=None)
        journals = [await supervisor.find_entries(view.id, limit=None) for view in views]
    entries = sorted((entry for journal in journals for entry in journal), key=lambda entry: entry.position)
    found = await check_replay(entries, {spec.name: spec for spec in AGENTS})
    assert len(found) > 30
    assert [each for each in found if each.kind != "follows"] == []


async def test_a_job_of_before_is_listed_until_its_session_ends(crossing, tmp_path):
    """Both of its calls keep their results, and the call after them runs once."""
    async with opened(unpacked(crossing, "jobs", tmp_path)) as supervisor:
        assert len(await supervisor.find_jobs(running=False)) == 2
        run = await supervisor.resume("jobs")
        (asked,) = await supervisor.find_approvals()
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "deployed after the jobs"
    assert crossing_agents.effects == ["deploy after the jobs 1"]
