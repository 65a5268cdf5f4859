"""Starting an agent by the name under which the supervisor was opened with it."""

import pytest
from scenes import opened

from supervisor import Context, InvalidInput, SessionConflict, UnknownAgent, agent
from supervisor.core.errors import SupervisorError

pytestmark = pytest.mark.anyio


@agent
async def adds(ctx: Context, numbers: list[int]) -> int:
    return sum(numbers)


@agent
async def clock(ctx: Context) -> str:
    return (await ctx.now()).isoformat()


async def test_an_agent_is_started_by_its_name_with_plain_json():
    """The same session, started by the declaration, is the same run."""
    async with opened(agents=[adds, clock]) as supervisor:
        run = await supervisor.start("adds", [1, 2], session="s")
        assert (await run.result(), run.is_new) == (3, True)
        assert not (await supervisor.start(adds, [1, 2], session="s")).is_new
        assert isinstance(await (await supervisor.start("clock")).result(), str)


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [("nosuch", [1], UnknownAgent), ("adds", ["one"], InvalidInput), ("clock", [1], SupervisorError)],
)
async def test_an_unknown_name_or_a_wrong_input_starts_nothing(name, given, error):
    async with opened(agents=[adds, clock]) as supervisor:
        with pytest.raises(error):
            await supervisor.start(name, given)
        assert list(await supervisor.find_sessions()) == []


async def test_a_session_is_not_started_again_by_the_name_of_another_agent():
    async with opened(agents=[adds, clock]) as supervisor:
        await (await supervisor.start("adds", [1], session="s")).result()
        with pytest.raises(SessionConflict):
            await supervisor.start("clock", session="s")


async def test_two_agents_of_one_name_are_refused():
    @agent(name="adds")
    async def other(ctx: Context) -> None: ...

    with pytest.raises(InvalidInput):
        async with opened(agents=[adds, other]):
            pass
