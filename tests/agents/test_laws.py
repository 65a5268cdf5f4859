"""The laws of foreign agents, as a table: front-end x moment x end.

A call of the agent is brought to a moment. Then an end comes: our process is killed, or the agent's is, and so on.
After that our process begins without a person, and ends when nothing goes on. In the last life a person approves what
waits.

Laws
- A call has at most one effect for each time that it is wanted, and exactly one unless it was cancelled or lost. Only a
  call that was allowed may be lost.
- An approval ends by a decision or a cancel, and only an answer uses the decision. Each call has one result.
- A process without a person ends. Its session has ended then, unless something waits for a person (exit code 3).

CI takes cases that hold each pair of two columns, and each row for one front-end of each kind; a soak takes all.
"""

from itertools import combinations, product

import anyio
import pytest
from law_fronts import BESIDE, CALL, FRONTS, HOURS, Killed, World

from supervisor.core import events as e
from supervisor.testing import virtual_asyncio, virtual_trio

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # a kill leaves coroutines unawaited
]
MOMENTS = ("before asking", "asked", "decided", "asked again", "allowed", "done")
ENDS = ("SIGKILL", "death", "cancel", "passivation", "another call first", "an equal call")
GATES = {"before asking": "before", "allowed": "allowed", "done": "after"}
CASES = [case for case in product(FRONTS, MOMENTS, ENDS) if case[2] not in case[0].cannot]


def pairwise(cases):
    """Return few of the cases, which hold every pair of values of two columns, and each moment and end for one of each
    kind of front-end: the next one has the most that is new."""
    pairs = {case: {*combinations(enumerate(case), 2), (type(case[0]), *case[1:])} for case in cases}
    missing, found = set().union(*pairs.values()), []
    while missing:
        found.append(max(cases, key=lambda case: len(pairs[case] & missing)))
        missing -= pairs[found[-1]]
    return found


FEW = pairwise(CASES)


def param(case, backend):
    """Return one case; CI runs each of the few on one backend."""
    front, moment, end = case
    is_in_ci = case in FEW and backend == front.backends[FEW.index(case) % len(front.backends)]
    marks = () if is_in_ci else pytest.mark.soak
    return pytest.param(backend, *case, marks=marks, id=f"{front.name}-{moment}-{end}-{backend}")


PARAMS = [param(case, backend) for case in CASES for backend in case[0].backends]


@pytest.mark.parametrize(("anyio_backend", "front", "moment", "end"), PARAMS, indirect=["anyio_backend"])
async def test_the_laws_hold(front, moment, end):
    with anyio.fail_after(HOURS):
        world = await _ended(front, moment, end)
        if end != "cancel":
            async with front.life(world):
                pass
        waits, ended = bool([*world.store.find_approvals()]), _outcome(world)
        assert (ended == "open") is (waits or not (front.ends or end == "cancel"))
        if ended == "open":
            await _come_to_the_end(front, world)
    if end == "cancel":
        assert ended == "cancelled"
    elif ended == "failed":  # of an agent of which nothing waited
        assert end == "death"
    else:
        assert _outcome(world) == ("succeeded" if front.ends else "open")
    _check(world, _outcome(world), may_be_lost=moment == "allowed")


@pytest.mark.parametrize(
    ("anyio_backend", "front"),
    [(backend, front) for front in FRONTS for backend in front.backends],
    indirect=["anyio_backend"],
    ids=str,
)
async def test_the_laws_hold_after_a_kill_after_any_commit(front):
    world = World(front.wants)
    world.keeps_lives = True
    await _come_to_the_end(front, world)
    assert len(world.lives) >= 7
    with anyio.fail_after(HOURS):
        for left in world.lives:
            await _come_to_the_end(front, left)
            _check(left, _outcome(left), may_be_lost=True)


async def _come_to_the_end(front, world):
    """Let a person decide until the agent has made its calls."""
    async with front.life(world) as life, anyio.create_task_group() as tasks:
        tasks.start_soon(life.person)
        await life.over()
        tasks.cancel_scope.cancel()


def _outcome(world):
    return ["open", *(each.kind for each in world.events(e.RunFinished))][-1]


@pytest.fixture
def anyio_backend(request):
    return {"asyncio": virtual_asyncio, "trio": virtual_trio}[request.param]()


async def _ended(front, moment, end):
    """Bring the call to the moment, let the end come, and return the world that it leaves."""
    further = {"another call first": ["y", *front.wants], "an equal call": [*front.wants, CALL]}.get(end, front.wants)
    world = World(further if front.is_one_answer else front.wants)
    if moment in ("decided", "asked again"):
        async with front.life(world) as life:
            await life.asked()
            world = World(world.wants, world)
            raise Killed
    world.gate = GATES.get(moment)
    async with front.decided(world) if moment == "decided" else front.life(world) as life:
        if moment not in ("before asking", "decided"):
            await life.asked()
            if moment in ("allowed", "done"):
                await life.approve_all(but=() if front.is_one_answer else (BESIDE,))
        await life.until(lambda: world.gate is None or world.is_there)
        match end:
            case "death":
                await life.die()
            case "cancel":
                await life.supervisor.cancel("s")
            case "passivation":
                await anyio.sleep(front.patience)
            case _:
                world = World(further, world)
                raise Killed
        world.open_gate()
    return world


def _check(world, outcome, *, may_be_lost):
    asked = {each.operation: each.approval for each in world.events(e.ToolCallRequested)}
    decided = {each.approval for each in world.events(e.ApprovalDecided)}
    approved = [each.operation for each in world.events(e.ApprovalDecided) if each.decision == "approve"]
    assert may_be_lost or outcome in ("cancelled", "failed") or len(approved) == len(world.effects)
    for command in {*world.wants}:
        wanted, happened = world.wants.count(command), world.effects.count(command)
        assert happened <= wanted * (1 + world.repeats)
        assert may_be_lost or not world.lost(command)
        assert outcome in ("cancelled", "failed") or world.spent(command) >= wanted
    assert sorted(each.operation for each in world.events(e.ToolCallFinished)) == sorted(asked)
    assert outcome == "cancelled" or {*asked.values()} - {None} <= decided
