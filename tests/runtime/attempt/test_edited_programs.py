"""Random edits of random programs that were killed: nothing runs after the first difference, and the old code finishes
(R1)."""

from collections import Counter

import anyio
from hypothesis import given, strategies as st
from scenes import ForkingStore, opened

from supervisor import Context, RunBlocked, agent, tool
from supervisor.testing import virtual_asyncio, virtual_trio

code: list = []
"""The program that the agent's function is today."""
ran: list[str] = []


@tool(policy="allow", idempotent=True)
async def call(name: str) -> str:
    ran.append(name)
    return name


@tool
async def approved(name: str) -> str:
    ran.append(name)
    return name


async def step(name: str) -> str:
    ran.append(f"step {name}")
    return name


async def run_program(ctx: Context, program: list) -> list:
    done = []
    for op in program:
        match op:
            case "call", name:
                done.append((await ctx.call(call, name)).kind)
            case "approved", name:
                done.append((await ctx.call(approved, name)).kind)
            case "step", name:
                done.append(await ctx.step(step, name))
            case "random", _:
                await ctx.random()
            case "sleep", _:
                await ctx.sleep(5)
            case "both", branches:
                async with ctx.task_group() as tasks:
                    for branch in branches:
                        tasks.start_soon(run_program, branch)
    return done


@agent(inactivity_timeout=30)
async def interpreter(ctx: Context) -> list:
    return await run_program(ctx, code)


NAMES = st.sampled_from("abc")
LEAVES = st.tuples(st.sampled_from(["call", "approved", "step", "random", "sleep"]), NAMES)
BLOCKS = st.tuples(st.just("both"), st.lists(st.lists(LEAVES, min_size=1, max_size=2), min_size=2, max_size=3))
PROGRAMS = st.lists(LEAVES | LEAVES | BLOCKS, min_size=1, max_size=5)


@st.composite
def edits(draw):
    """Return a program, and the same program with one operation removed, added, changed or moved."""
    program = draw(PROGRAMS)
    place = draw(st.integers(0, len(program) - 1))
    edited = [*program]
    match draw(st.sampled_from(["delete", "insert", "change", "swap"])):
        case "delete":
            del edited[place]
        case "insert":
            edited.insert(place, draw(LEAVES))
        case "change":
            edited[place] = draw(LEAVES)
        case "swap":
            edited[place], edited[-1] = edited[-1], edited[place]
    return program, edited


async def check(program: list, edited: list, chance: int) -> None:
    ran.clear()
    code[:] = program
    store = ForkingStore(lambda: list(ran))
    async with opened(store, unattended="allow") as supervisor:
        expected = await (await supervisor.start(interpreter, session="s")).result()
    once = Counter(ran)
    killed, so_far = store.copies[chance % len(store.copies)]
    code[:] = edited
    ran[:] = so_far
    async with opened(killed, unattended="allow") as supervisor:
        await supervisor.resume_all()
        try:
            await (await supervisor.get_run("s")).outcome()
            return  # the edit comes after all operations that were done, or changes nothing
        except RunBlocked:
            assert Counter(ran) == Counter(so_far)
    code[:] = program
    async with opened(killed, unattended="allow") as supervisor:
        await supervisor.resume_all()
        got = await (await supervisor.get_run("s")).result()
    assert len(got) == len(expected)
    assert all(one in (other, "interrupted") for one, other in zip(got, expected, strict=True))  # reported as lost
    doubled = Counter(ran) - once
    assert all(name.startswith("step") or name in so_far for name in doubled), doubled


@given(edits(), st.integers(0, 30), st.sampled_from([virtual_asyncio, virtual_trio]))
def test_an_edited_program_runs_nothing_after_the_difference_and_the_old_one_finishes(edit, chance, virtual):
    """Steps may run again, as after any crash, and so may idempotent calls that the kill interrupted. Nothing else runs
    twice."""
    backend, options = virtual()
    anyio.run(check, *edit, chance, backend=backend, backend_options=options)
