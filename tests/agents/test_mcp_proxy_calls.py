"""The calls of a proxied MCP server, without a protocol and processes: who waits, for how long, and after what."""

from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import anyio
import pytest

from supervisor import Approve, Deny, MemoryStore, SqliteStore, open_supervisor
from supervisor.agents.mcp_proxy.callers import Caller, Offered
from supervisor.agents.mcp_proxy.calls import KEPT_SECONDS, NO_TALK, Calls
from supervisor.agents.mcp_proxy.replies import NOTE
from supervisor.testing import fast_disk, fresh_process

pytestmark = pytest.mark.anyio
ADD = {"text": "a"}
HOUR = 3600.0


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.fixture(autouse=True)
def _alone(enter):
    """No commit goes to a thread, and a test's agent is not known to the next test."""
    enter(fast_disk())
    enter(fresh_process())


def now():
    """Wall time, as the virtual clock has it."""
    return datetime.fromtimestamp(anyio.current_time(), UTC)


class _Dies(Exception):
    pass


class Client:
    """A client that takes each reply at once, and a server that answers when it may: `may_answer`."""

    def __init__(self, supervisor, tasks):
        self.supervisor, self.tasks = supervisor, tasks
        self.calls = Calls("files", trust_hints=False, timeout=HOUR, forward=self.forward, now=now)
        self.takes = 0.0
        self.may_answer = anyio.Event()
        self.may_answer.set()
        self.sent, self.replies = [], []

    async def forward(self, call, params):
        self.sent.append((params["name"], params["arguments"]))
        await self.may_answer.wait()
        await anyio.sleep(self.takes)
        return {"result": {"content": [], "structuredContent": {"number": len(self.sent)}}}

    def call(self, arguments=ADD):
        scope = anyio.CancelScope()
        self.tasks.start_soon(self._call, arguments, Caller({"name": "add"}), scope)
        return scope

    async def _call(self, arguments, caller, scope):
        with scope:
            reply = await self.calls.call("add", arguments, caller, Offered())
            self.replies.append(reply["result"])
            caller.written()

    async def pending(self):
        """Return the pending approvals, when nothing goes on by itself any more."""
        await anyio.sleep(1)
        return list(await self.supervisor.find_approvals())

    async def approve(self):
        (approval,) = await self.pending()
        await self.supervisor.decide(approval.id, Approve(by="ana"))
        await anyio.sleep(1)

    async def replied(self):
        await anyio.sleep(1)
        return [(each.get("structuredContent"), NOTE in each.get("_meta", {})) for each in self.replies]

    async def leave(self, scope):
        scope.cancel()
        await anyio.sleep(1)


@asynccontextmanager
async def client(store):
    """Serve a session until the block ends; then its tasks are suspended."""
    with suppress(_Dies):
        async with open_supervisor(store) as supervisor:
            await supervisor.find_approvals()  # a reader: else a store in memory denies at once
            async with anyio.create_task_group() as tasks:
                found = Client(supervisor, tasks)
                run = await supervisor.start(found.calls.agent, "files", session="s")
                tasks.start_soon(found.calls.follow, run)
                yield found
                tasks.cancel_scope.cancel()
            raise _Dies


async def test_a_result_is_kept_for_five_minutes_for_the_next_equal_call():
    """Then the call is a new one."""
    async with client(MemoryStore()) as it:
        for waits in (KEPT_SECONDS - 10, KEPT_SECONDS + 10):
            it.may_answer = anyio.Event()
            first = it.call()
            await it.approve()
            await it.leave(first)
            it.may_answer.set()
            await anyio.sleep(waits)
            it.call()
            await anyio.sleep(1)
        assert (await it.replied(), len(it.sent), len(await it.pending())) == ([({"number": 1}, True)], 2, 1)


async def test_a_result_that_was_kept_is_kept_no_longer_by_a_later_process(tmp_path):
    """The time counts on while no process lives."""
    store = SqliteStore(tmp_path / "s.db")
    async with client(store) as it:
        it.may_answer = anyio.Event()
        first = it.call()
        await it.approve()
        await it.leave(first)
        it.may_answer.set()
        await anyio.sleep(10)
    await anyio.sleep(KEPT_SECONDS)
    async with client(SqliteStore(tmp_path / "s.db")) as it:
        await anyio.sleep(1)
        it.call()
        assert (len(await it.pending()), it.sent) == (1, [])


@pytest.mark.parametrize("later", [KEPT_SECONDS - 60, KEPT_SECONDS + 60])
async def test_a_result_that_came_as_its_process_ended_is_kept_from_then_on(tmp_path, later):
    """However late the next process begins."""
    async with client(SqliteStore(tmp_path / "s.db")) as it:
        it.takes = 5.0
        it.call()
        await it.approve()
    await anyio.sleep(later)
    async with client(SqliteStore(tmp_path / "s.db")) as it:
        it.call()
        assert await it.replied() == ([({"number": 1}, True)] if later < KEPT_SECONDS else [])
        assert (len(await it.pending()), it.sent) == (int(later > KEPT_SECONDS), [])


async def test_a_denial_waits_until_a_client_hears_it():
    async with client(MemoryStore()) as it:
        first = it.call()
        (approval,) = await it.pending()
        await it.leave(first)
        await it.supervisor.decide(approval.id, Deny(by="ana", reason="no"))
        await anyio.sleep(HOUR)
        it.call()
        assert await it.replied() == [(None, False)]
        assert (it.replies[0]["isError"], it.sent) == (True, [])


async def test_an_approval_waits_for_a_client_and_only_then_its_call_begins(tmp_path):
    """For days, and through processes. The result is that of the client's own call."""
    async with client(SqliteStore(tmp_path / "s.db")) as it:
        first = it.call()
        await it.pending()
        await it.leave(first)
    async with client(SqliteStore(tmp_path / "s.db")) as it:
        await it.approve()
        await anyio.sleep(HOUR)
        assert it.sent == []
        it.call()
        assert (await it.replied(), it.sent) == ([({"number": 1}, False)], [("add", ADD)])


async def test_two_clients_with_the_same_call_have_two_and_other_arguments_are_another_call():
    async with client(MemoryStore()) as it:
        first = it.call()
        it.call({"text": "a"})
        it.call({"text": "b"})
        assert len(await it.pending()) == 3
        await it.leave(first)
        it.call({"text": "c"})
        it.call({"text": "a"})
        assert len(await it.pending()) == 4


async def test_a_message_to_the_session_is_answered_and_does_not_stall_it():
    async with client(MemoryStore()) as it:
        await it.supervisor.send("s", "hello")
        await anyio.sleep(HOUR)
        said = [each.text for each in await it.supervisor.get_transcript("s") if each.kind == "sent"]
        it.call()
        assert (said, len(await it.pending())) == ([NO_TALK], 1)
