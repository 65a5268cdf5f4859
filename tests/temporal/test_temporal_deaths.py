"""A worker dies by SIGKILL: what its call had done is known, and no effect happens twice."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

QUICK = "--lost-after", "2"
RULES = Path(__file__).with_name("rule_agents.py")


@pytest.mark.parametrize(("where", "effects"), [("before the effect", []), ("after the effect", ["after the effect"])])
def test_a_call_that_was_executing_is_interrupted(cluster, where, effects):
    """After the mark: it may have run, so it does not run again, and the agent learns that."""
    first = cluster.worker(*QUICK)
    cluster.run("start", "mortal", json.dumps(where), "--session", "m", "--detach")
    first.wait(timeout=30)
    cluster.worker(*QUICK)
    assert cluster.outcome("m")["value"] == ["interrupted", "lost"]
    assert cluster.effects() == effects
    cluster.replay("m", processes=1)


def test_a_call_that_had_not_begun_runs_on_another_worker(cluster):
    """Before the mark: the server knows that it never began. It runs, once."""
    first = cluster.worker(*QUICK)
    cluster.run("start", "mover", '"home"', "--session", "m", "--detach")
    first.wait(timeout=30)
    cluster.worker(*QUICK)
    assert cluster.outcome("m")["value"] == "home"
    assert cluster.effects() == ["moved home"]


def lives(process: str) -> bool:
    """Whether a process runs: a zombie does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True).stdout.strip()
    return state != "" and not state.startswith("Z")


@pytest.mark.slow
def test_a_worker_that_dies_in_an_effect_ends_its_command_and_steps_run_again(cluster):
    """So do calls of idempotent tools. The command's process is gone, and its call interrupted."""
    worker = cluster.worker(*QUICK)
    cluster.run("start", "commanding", "--session", "c", code=3)
    cluster.run("approve", cluster.pending()[0]["id"])
    cluster.until(cluster.effects)
    (begun,) = cluster.effects()
    assert lives(begun.split()[1])
    for agent, where in (("treader", "step"), ("rereading", "page")):
        cluster.run("start", agent, f'"{where}"', "--session", where, "--detach")
        worker.wait(timeout=30)
        worker = cluster.worker(*QUICK)
        assert cluster.outcome(where)["value"] == where
    cluster.until(lambda: not lives(begun.split()[1]))
    assert cluster.outcome("c")["value"] == "interrupted"
    assert cluster.effects() == [begun, "step", "step", "page", "page"]


@pytest.mark.parametrize("processes", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_a_history_is_replayed_in_fresh_processes(cluster, processes):
    """Races, cancelled losers, sub-agents, a cancel of three levels: the commands come in the same order each time."""
    cluster.worker("--cached", "1")
    cluster.run("start", "racing", "6", "--session", "races", "--detach")
    cluster.run("start", "deep", "3", "--session", "deep", "--detach")
    cluster.run("start", "janitor", '["/srv/a", "/srv/b"]', "--session", "j", code=3)
    for each in cluster.pending(2):
        cluster.run("approve", each["id"])
    cluster.until(lambda: len([each for each in cluster.effects() if each.startswith("begun")]) >= 6 + 5)
    cluster.run("cancel", "deep")
    assert cluster.outcome("races")["value"] == [f"race{each} True" for each in range(6)]
    assert cluster.outcome("j")["kind"] == "succeeded"
    cluster.replay("races", "deep", "j", processes=processes, times=1)


def test_tasks_that_one_timer_cancels_clean_up_in_the_same_order(cluster):
    """Each of them begins a call as it cleans up."""
    cluster.worker()
    cluster.run("start", "cleaning", "8", "--session", "c", "--detach")
    assert cluster.outcome("c")["value"] == 16
    cluster.replay("c")


@pytest.mark.parametrize("where", ["after the rule", pytest.param("before the rule", marks=pytest.mark.soak)])
def test_a_decision_for_always_makes_its_rule_whenever_the_worker_dies(cluster, where):
    """Once, and before the next call, which is not asked for. Each call runs once."""
    first = cluster.worker(*QUICK, agents=RULES, RULE_DEATH=where)
    cluster.run("start", "pressing_twice", "--session", "p", "--detach")
    (asked,) = cluster.pending()
    cluster.run("approve", asked["id"], "--scope", "always")
    first.wait(timeout=30)
    cluster.worker(*QUICK, agents=RULES)
    assert cluster.outcome("p")["value"] == ["ok", "ok"]
    assert [(rule["kind"], rule["session"]) for rule in cluster.read("rules")] == [("allow", None)]
    assert cluster.effects() == ["pressed red"] * 2


OTHER_CODE = """
import os
from supervisor import Context, agent

async def {name}(number: int) -> str:
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(f"{{number}}\\n")
    return "{name}"

@agent
async def divided(ctx: Context) -> list[str]:
    found: list[str] = []

    async def one(own: Context, number: int) -> None:
        found.append(await own.step({name}, number))

    async with ctx.task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)
    return found
"""


def test_a_step_that_one_of_two_workers_lacks_runs_on_the_other_one(cluster, tmp_path):
    """Each has a function that the other one lacks. The server hands a step to any of them, and each runs once."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        code = tmp_path / name / "divided_agents.py"
        code.write_text(OTHER_CODE.format(name=name))
        cluster.worker(agents=code)
    cluster.run("start", "divided", "--session", "d", "--detach")
    assert set(cluster.outcome("d")["value"]) <= {"first", "second"}
    assert sorted(cluster.effects()) == sorted(str(number) for number in range(30))


@pytest.mark.soak
def test_an_answer_that_was_given_in_time_counts_although_it_comes_late(cluster):
    """No worker lives when it is given, nor when the question expires. A question without one has expired."""
    cluster.worker()
    cluster.run("start", "expiring", "20", "--session", "answered", "--detach")
    cluster.run("start", "expiring", "20", "--session", "silent", "--detach")
    asked = {each["session"]: each for each in cluster.pending(2)}
    cluster.kill()
    assert cluster.read("answer", asked["answered"]["id"], "fine")["kind"] == "recorded"
    end = datetime.fromisoformat(asked["silent"]["expires_at"])
    cluster.until(lambda: datetime.now(UTC) > end)
    assert cluster.read("answer", asked["silent"]["id"], "late", code=4)["kind"] == "closed"
    cluster.worker()
    assert cluster.outcome("answered")["value"] == "fine"
    assert "expired" in cluster.outcome("silent")["cause"]
    assert cluster.read("answer", asked["silent"]["id"], "late", code=4)["kind"] == "closed"
    cluster.replay("answered", "silent", processes=1)


def test_of_four_processes_that_decide_one_wins(cluster):
    """While no worker lives: the claim decides, and all of them learn whose it is."""
    cluster.worker()
    cluster.run("start", "janitor", '["/srv/a"]', "--session", "j", code=3)
    (asked,) = cluster.pending()
    cluster.kill()
    racers = [cluster.begin("deny", asked["id"], "--by", f"person{n}", "--json") for n in range(2)]
    racers += [cluster.begin("approve", asked["id"], "--by", f"person{n}", "--json") for n in range(2, 4)]
    results = [json.loads(each.communicate(timeout=60)[0]) for each in racers]
    (won,) = {each["by"] for each in results}
    assert sorted(each["kind"] for each in results) == ["already", "conflict", "conflict", "recorded"]
    cluster.worker()
    assert cluster.outcome("j")["kind"] == "succeeded"
    assert f"by {won} (command line)" in cluster.run("show", "j")
