"""Requests for permission and the calls that they become, without a protocol: who waits, who dies, who asks again."""

import time
from contextlib import asynccontextmanager

import anyio
import pytest

from supervisor import Approve, Deny, MemoryStore, SqliteStore, allow, deny, open_supervisor
from supervisor.agents.claude.permissions import NO_TALK, Allowed, Client, Denied, Permissions
from supervisor.core.errors import StoreRefused
from supervisor.system import loading
from supervisor.testing import fast_disk, fresh_process

pytestmark = pytest.mark.anyio
HOUR = 3600.0
LIST = {"command": "ls"}


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.fixture(autouse=True)
def _alone(enter):
    """No commit goes to a thread, and a test's agent is not known to the next test."""
    enter(fast_disk())
    enter(fresh_process())


class Full(SqliteStore):
    is_full = False

    def commit(self):
        if self.is_full:
            raise StoreRefused("the disk is full")
        super().commit()


PATIENCE = 30.0  # real seconds until a test gives up


class _Dies(Exception):
    pass


class Claude:
    """A program that asks, and takes each answer at once."""

    def __init__(self, permissions, supervisor, tasks):
        self.permissions, self.supervisor, self.tasks = permissions, supervisor, tasks
        self.answers = []
        self.scopes = []

    def ask(self, tool="Bash", arguments=LIST):
        scope, client = anyio.CancelScope(), Client()
        self.scopes.append(scope)
        self.tasks.start_soon(self._ask, tool, arguments, client, scope)

    async def _ask(self, tool, arguments, client, scope):
        with scope:
            self.answers.append(await self.permissions.ask(tool, arguments, client))
            client.written()

    async def leave(self):
        """Give up the first request. One that is made before this is heard counts as another client's."""
        self.scopes[0].cancel()
        await anyio.sleep(1)

    async def pending(self):
        """Return the pending approvals, when nothing goes on by itself any more."""
        await anyio.sleep(1)
        return list(await self.supervisor.find_approvals())

    async def asked(self):
        """Return the pending approvals, when there is one."""
        give_up_at = time.monotonic() + PATIENCE
        while not (found := await self.pending()) and time.monotonic() < give_up_at:
            await anyio.to_thread.run_sync(time.sleep, 0.01)
        return found

    async def answered(self, count=1):
        """Return the answers, when so many have come and nothing goes on by itself any more."""
        await anyio.sleep(1)
        give_up_at = time.monotonic() + PATIENCE
        while len(self.answers) < count and time.monotonic() < give_up_at:  # a commit in a thread takes real time
            await anyio.to_thread.run_sync(time.sleep, 0.01)
            await anyio.sleep(1)
        return self.answers

    async def approve(self, approval):
        await self.supervisor.decide(approval.id, Approve(by="ana"))

    async def deny(self, approval):
        await self.supervisor.decide(approval.id, Deny(by="ana", reason="no"))


@asynccontextmanager
async def claude(store, *, dies=False, conversation=None, **options):
    """Serve a session until the block ends. `dies`: its tasks are suspended; else the session is cancelled."""
    try:
        async with open_supervisor(store, **options) as supervisor:
            permissions = Permissions(conversation)
            run = await supervisor.start(permissions.agent, session="s")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(permissions.follow, run)
                yield Claude(permissions, supervisor, tasks)
                tasks.cancel_scope.cancel()
            if dies:
                raise _Dies
            await run.cancel()
    except _Dies:
        pass


@pytest.fixture
def store(tmp_path):
    return lambda: SqliteStore(tmp_path / "state.db")


async def test_a_server_may_be_idle_for_hours_and_a_person_may_take_hours():
    """No watchdog stalls it, and it does not leave memory."""
    async with claude(MemoryStore()) as it:
        await it.pending()  # so a person reads the store
        await anyio.sleep(8 * HOUR)
        it.ask()
        (asked,) = await it.pending()
        await anyio.sleep(8 * HOUR)
        await it.approve(asked)
        assert await it.answered() == [Allowed(LIST)]


async def test_the_same_call_at_the_same_time_has_two_approvals(store):
    async with claude(store()) as it:
        it.ask()
        it.ask()
        first, _ = await it.pending()
        await it.approve(first)
        assert await it.answered() == [Allowed(LIST)]
        assert len(await it.pending()) == 1


@pytest.mark.parametrize("decide", ["approve", "deny"])
async def test_equal_requests_stand_for_each_other(store, decide):
    """Both clients have died, and a person decides about the second request. The one client that comes gets that."""
    async with claude(store(), dies=True) as it:
        it.ask()
        it.ask()
        await it.pending()
    async with claude(store()) as it:
        first, second = sorted(await it.pending(), key=lambda each: each.created_at)
        await getattr(it, decide)(second)
        it.ask()
        (answer,) = await it.answered()
        assert isinstance(answer, Allowed if decide == "approve" else Denied)
        assert [each.id for each in await it.pending()] == [first.id]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("Bash", {"command": "ls -a"}), ("Write", LIST), ("Bash", {**LIST, "timeout": 1})],
    ids=["input", "tool", "more"],
)
async def test_a_decision_is_for_the_same_tool_and_input_only(store, tool, arguments):
    async with claude(store()) as it:
        it.ask()
        (asked,) = await it.pending()
        await it.leave()
        await it.approve(asked)
        it.ask(tool, arguments)
        assert await it.answered(0) == []
        assert len(await it.pending()) == 1


@pytest.mark.parametrize("decide", ["approve", "deny"])
async def test_a_decision_outlives_any_number_of_servers_and_counts_once(store, decide):
    """It is made while no server lives, and servers come and go before the call is asked for again."""
    async with claude(store(), dies=True) as it:
        it.ask()
        (asked,) = await it.pending()
    loading._seen.clear()  # a person's program does not know the agent
    async with open_supervisor(store()) as person:
        decision = Approve(by="ana") if decide == "approve" else Deny(by="ana", reason="no")
        assert (await person.decide(asked.id, decision)).kind == "accepted"
    for _ in range(5):
        async with claude(store(), dies=True) as it:
            assert await it.pending() == []
    async with claude(store()) as it:
        it.ask()
        (answer,) = await it.answered()
        assert answer == Allowed(LIST) if decide == "approve" else answer.reason.startswith("denied by ana: no")
        it.ask()
        assert len(await it.pending()) == 1


async def test_a_command_that_is_described_in_other_words_is_the_same_call(store):
    """What was shown and decided is what may run."""
    async with claude(store()) as it:
        it.ask("Bash", {**LIST, "description": "look"})
        (asked,) = await it.pending()
        await it.leave()
        await it.approve(asked)
        it.ask("Bash", {**LIST, "description": "list the files"})
        assert await it.answered() == [Allowed({**LIST, "description": "look"})]


async def test_a_call_that_is_asked_again_while_it_is_pending_joins_its_approval(store):
    async with claude(store(), dies=True) as it:
        it.ask()
        (asked,) = await it.pending()
    async with claude(store()) as it:
        it.ask()
        assert [each.id for each in await it.pending()] == [asked.id]
        await it.approve(asked)
        assert await it.answered() == [Allowed(LIST)]


async def test_the_rules_of_the_instant_decide_about_a_decision_that_waited(store):
    """A rule that a person adds after the approval beats it (A9)."""
    async with claude(store()) as it:
        it.ask()
        (asked,) = await it.pending()
        await it.leave()
        await it.approve(asked)
        await it.supervisor.add_rule(deny("Bash", "ls"), by="ana")
        it.ask()
        (answer,) = await it.answered()
        assert isinstance(answer, Denied)


async def test_a_rule_on_a_command_holds_whatever_describes_it_and_however_long_it_may_take(store):
    """The patterns that a card offers do not hold these words either. What changes the call, a rule does not cover."""
    described = {"command": "git log -1", "description": "why", "timeout": 120_000}
    async with claude(store()) as it:
        it.ask("Bash", described)
        (asked,) = await it.pending()
        offered = [option.pattern for option in asked.options if option.scope == "always"]
        assert offered == [f"in {asked.cwd}: git log -1", f"in {asked.cwd}: git log *"]
        await it.supervisor.add_rule(allow("Bash", "git log *"), by="ana")
        again = {**described, "description": "because"}
        it.ask("Bash", again)
        assert Allowed(again) in await it.answered()
        it.ask("Bash", {**again, "dangerouslyDisableSandbox": True})
        assert len(await it.pending()) == 2


async def test_a_message_is_answered_and_kept_from_no_turn(store):
    async with claude(store()) as it:
        await it.supervisor.send("s", "hurry", by="ana")
        it.ask()
        (asked,) = await it.pending()
        entries = [entry.event for entry in await it.supervisor.find_entries("s")]
        assert [event.text for event in entries if type(event).__name__ == "MessageSent"] == [NO_TALK]
        await it.approve(asked)
        assert await it.answered() == [Allowed(LIST)]


async def test_a_store_that_takes_no_more_entries_denies_everything(tmp_path):
    """A request that waits, and each later one, is denied with what the store says."""
    store = Full(tmp_path / "state.db")
    async with claude(store, dies=True) as it:
        it.ask()
        await it.pending()
        store.is_full = True
        it.ask("Write")
        await anyio.sleep(1)
        it.ask("Edit")
        answers = await it.answered(3)
        assert [isinstance(each, Denied) and "full" in each.reason for each in answers] == [True] * 3
        store.is_full = False


@pytest.mark.parametrize("garbage", ["echo \ud800", float("nan")], ids=["surrogate", "nan"])
async def test_an_input_that_no_journal_can_hold_is_denied(store, garbage):
    async with claude(store()) as it:
        it.ask("Bash", {"command": garbage})
        it.ask()
        assert len(await it.pending()) == 1
        (answer,) = it.answers
        assert isinstance(answer, Denied)


async def test_a_client_that_does_not_take_the_answer_was_allowed_nothing(store):
    """The result of the call says so, and the same call asked again is a new approval."""
    async with claude(store()) as it:
        client = Client()
        with anyio.CancelScope() as scope:
            it.tasks.start_soon(it.permissions.ask, "Bash", LIST, client)
            (asked,) = await it.pending()
            client.written = None  # it dies before it reads
            client.is_over.set()
            await it.approve(asked)
            await anyio.sleep(1)
            scope.cancel()
        entries = [entry.event for entry in await it.supervisor.find_entries("s")]
        (result,) = [event for event in entries if type(event).__name__ == "ToolCallFinished"]
        assert (result.kind, b'"effect":"none"' in bytes(result.details)) == ("error", True)


async def test_hundreds_of_requests_leave_nothing_in_memory():
    async with claude(MemoryStore()) as it:
        await it.supervisor.add_rule(deny("Bash"), by="ana")
        for number in range(200):
            it.ask("Bash", {"command": f"ls {number}"})
            while len(it.answers) <= number:
                await anyio.sleep(0)
        state = it.supervisor._runner.journal.states["s"]
        assert (len(it.permissions._open), len(state.operations) < 10) == (0, True)
