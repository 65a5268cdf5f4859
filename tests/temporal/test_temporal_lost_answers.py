"""A server that goes away in the middle of a command: it has done it, and its answer is lost."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from fronts import LosingFront
from temporal_server import namespace, working
from turning_agents import listening

from supervisor import Answer, ServerUnavailable
from supervisor.seam.supervisor import Supervisor
from supervisor.temporal import open_temporal

pytestmark = pytest.mark.anyio
ANSWER = Answer(value="go", by="ana")


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


Act = Callable[[Supervisor, str], Awaitable[object]]
COMMANDS: dict[str, tuple[str, Act]] = {
    "start": ("StartWorkflowExecution", lambda supervisor, _: supervisor.start(listening, 0, session="start")),
    "decide": ("SignalWorkflowExecution", lambda supervisor, asked: supervisor.decide(asked, ANSWER)),
    "send": ("SignalWorkflowExecution", lambda supervisor, _: supervisor.send("send", "hello")),
    "cancel": ("SignalWorkflowExecution", lambda supervisor, _: supervisor.cancel("cancel")),
}
"""By the session of each: the request whose answer is lost, and the command. It gets the approval of the session."""


async def asked_by(supervisor: Supervisor, session: str) -> str:
    """Return the approval that a session waits for, as soon as it does."""
    while not (found := await supervisor.find_approvals(session=session)):
        await anyio.sleep(0.05)
    return found[0].id


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_command_whose_answer_is_lost_counts_once(is_back):
    """The error says that it may have been done. It is none if the server is back at once: the request is repeated,
    and the server knows it."""
    url = await namespace()
    async with working(url, [listening]), open_temporal(url) as near, anyio.create_task_group() as tasks:
        for session in ("decide", "send", "cancel"):
            await near.start(listening, int(session == "send"), session=session)
        for session, (request, act) in COMMANDS.items():
            asked = "" if session == "start" else await asked_by(near, session)
            tasks.start_soon(lose, url, LosingFront(request, is_back=is_back), act, asked)
    async with working(url, [listening]), open_temporal(url) as near:
        for session in ("start", "send"):
            await near.decide(await asked_by(near, session), ANSWER)
        outcomes = [await (await near.get_run(each)).outcome() for each in COMMANDS]
        assert [each.value for each in outcomes] == [["go"], ["go"], ["go", "hello"], None]
        assert outcomes[3].kind == "cancelled"
        assert [each.text for each in await near.get_transcript("send")].count("hello") == 1


async def lose(url: str, front: LosingFront, act: Act, asked: str) -> None:
    """Give a command, and lose the answer."""
    target, _, name = url.removeprefix("temporal://").partition("/")
    async with front.serving(target) as address, open_temporal(f"temporal://{address}/{name}") as far:
        if front.is_back:
            await act(far, asked)
        else:
            with pytest.raises(ServerUnavailable) as lost:
                await act(far, asked)
            assert lost.value.maybe_done
        assert front.has_lost
