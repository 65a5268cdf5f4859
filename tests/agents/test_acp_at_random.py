"""Conversations at random: whatever an agent asks and people say, each request is answered once, and the run ends."""

import tempfile
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import anyio
from acp_scenes import Home, ask, events, opened, say
from hypothesis import given, settings, strategies as st

from supervisor import Answer, Approve, Deny, MemoryStore
from supervisor.core import events as e

ALLOW = {"optionId": "yes", "name": "Allow", "kind": "allow_once"}
REJECT = {"optionId": "no", "name": "Reject", "kind": "reject_once"}
OPTIONS = [[ALLOW, REJECT], [ALLOW, REJECT], [ALLOW], [REJECT], []]
IGNORED = "rm ignored"
KINDS = ["execute", "edit", "read", "no kind of ACP"]


def random_turn(random, numbers):
    """Return the steps of a turn: messages, calls, and requests of which several may wait at once."""
    steps, waiting = [], []
    for number in [next(numbers) for _ in range(random.randint(0, 6))]:
        name = f"c{number}"
        reports = [
            say(f"message {number} "),
            {"do": "plan", "entries": ["think", "do"]},
            {"do": "call", "id": name, "input": {"a": 1}},
            {"do": "called", "id": name, "status": random.choice(["completed", "failed"]), "text": "x"},
            {"do": "update", "update": {"sessionUpdate": "unknown", "number": number}},
        ]
        asks = [random_ask(random, name), {**random_ask(random, name), "wait": False}]
        steps.append(random.choice([random.choice(reports), *asks]))
        if steps[-1].get("wait") is False:
            waiting.append(name)
        if random.random() < 0.2:
            steps.append({"do": "await", "ids": random.sample(waiting, len(waiting))})
            waiting.clear()
    if random.random() < 0.5:
        return [*steps, {"do": "await", "ids": waiting}]
    for step in steps:  # the turn ends while these wait, and no person looks at them
        if step.get("id") in waiting:
            step["input"] = {"command": IGNORED}
    return steps


def random_ask(random, name):
    step = ask(name, f"rm {random.choice('ab')}", kind=random.choice(KINDS), options=random.choice(OPTIONS))
    return {**step, "input": None} if random.random() < 0.2 else step


async def answer(random, supervisor, approval):
    await anyio.sleep(random.random() / 50)
    if approval.choices:
        decision = Answer(value=random.choice(approval.choices), by="ana")
    else:
        decision = random.choice([Approve(by="ana"), Approve(by="ana"), Deny(by="ana"), Deny(by="ana", reason="never")])
    await supervisor.decide(approval.id, decision)


async def people(random, supervisor, tasks):
    async with supervisor.watch_approvals() as watch:
        async for approval in watch:
            if IGNORED not in str(approval):
                tasks.start_soon(answer, random, supervisor, approval)


async def converse(random, home, store):
    """Run an agent to its end, which a cancel may bring; return the kind of its outcome, and whether it came."""
    numbers, is_cancelled = count(), random.random() < 0.3
    agent = home.agent(*[random_turn(random, numbers) for _ in range(14)], reject_ends=random.random() < 0.4)
    async with opened(store) as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(agent, "go", session="s")
        tasks.start_soon(people, random, supervisor, tasks)
        if is_cancelled:
            await anyio.sleep(random.random() / 3)
            await supervisor.cancel("s")
        outcome = await run.outcome()
        assert [*await supervisor.find_approvals()] == []
        tasks.cancel_scope.cancel()
    return outcome.kind, is_cancelled


@given(st.sampled_from(["asyncio", "trio"]), st.integers(0, 2**32).map(Random))
@settings(max_examples=30)
def test_a_random_conversation_comes_to_its_end(backend, random):
    """No effect without `executing`, one result for each call, one answer for each request, and no process is left."""
    store = MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        kind, is_cancelled = anyio.run(partial(converse, random, home, store), backend=backend)
        finished = [each.operation for each in events(store, "s", e.ToolCallFinished)]
        answered = [each["id"] for each in home.heard if "method" not in each]
        assert kind == "succeeded" or (kind == "cancelled" and is_cancelled)
        assert len(set(home.effects)) == len(home.effects) <= len(events(store, "s", e.ToolCallStarted))
        assert len(set(finished)) == len(finished)
        assert len(set(answered)) == len(answered)
        assert home.living == []
