"""A15: refused decisions are in the audit trail, and cannot fill the store."""

import anyio
import pytest
from scenes import deploy, events, fork, opened

from supervisor import Approve, Context, InvalidInput, MemoryStore, NotEntitled, People, Person, agent
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
PEOPLE = People([Person(name="ana", roles=("approver",)), Person(name="carl"), Person(name="eve")])


@agent
async def deploys(ctx: Context) -> list[str]:
    return [(await ctx.call(deploy, name)).kind for name in ("a", "b")]


async def refused(supervisor, approval, by):
    with pytest.raises(NotEntitled):
        await supervisor.decide(approval.id, Approve(by=by), channel="web")


async def test_a_refusal_is_journaled_once_for_each_person_and_approval():
    """The person may press again, at once or later. Each press is refused all the same."""
    store = MemoryStore()
    async with opened(store, people=PEOPLE) as supervisor:
        run = await supervisor.start(deploys, session="s", requester="ana")
        async with run.watch_approvals() as reader:
            first = await anext(reader)
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(refused, supervisor, first, "carl")
            await refused(supervisor, first, "carl")
            await refused(supervisor, first, "eve")
            await supervisor.decide(first.id, Approve(by="ana"))
            second = await anext(reader)
            await refused(supervisor, second, "carl")
            seen = [(each.by, each.approval) for each in events(store, "s", e.DecisionRefused)]
            assert seen == [("carl", first.id), ("eve", first.id), ("carl", second.id)]
    again = fork(store)
    async with opened(again, people=PEOPLE) as supervisor:
        await refused(supervisor, second, "carl")
        assert len(events(again, "s", e.DecisionRefused)) == 3


async def test_a_refused_command_is_journaled_once_for_each_person_and_kind():
    """In the journal of the store, which no prune removes; the rules in it still hold."""
    store = MemoryStore()
    async with opened(store, people=PEOPLE) as supervisor:
        await supervisor.start(deploys, session="s", requester="ana")
        for _ in range(3):
            for command in (supervisor.cancel("s", by="eve"), supervisor.retry("t", by="eve")):
                with pytest.raises(NotEntitled):
                    await command
        with pytest.raises(NotEntitled):
            await supervisor.start(deploys, by="carl")
    async with opened(fork(store), people=PEOPLE) as supervisor:
        with pytest.raises(NotEntitled):
            await supervisor.cancel("s", by="eve")
        audited = [row.event for row in await supervisor.find_audit()]
        assert list(await supervisor.find_rules()) == []
    refused = [(each.by, each.act, each.session) for each in audited if isinstance(each, e.CommandRefused)]
    assert refused == [
        ("eve", "cancel sessions", "s"),
        ("eve", "retry sessions", "t"),
        ("carl", "start agents", None),
    ]


async def test_a_channel_that_is_no_text_is_refused_before_it_is_written():
    """T1: no process could read the journal again."""
    async with opened(store := MemoryStore()) as supervisor:
        for write in (
            lambda: supervisor.decide("a" * 42, Approve(by="ana"), channel=5),
            lambda: supervisor.chat("s", "yes", channel=0),
            lambda: supervisor.reveal("a" * 42, by="ana", channel=[]),
            lambda: supervisor.note_refusal("a" * 42, by="ana", reason="no", channel=5),
            lambda: supervisor.note_shown("s", "m", channel=None),
            lambda: supervisor.note_shown("s", 5, channel="web"),
        ):
            with pytest.raises(InvalidInput, match="is a text, not"):
                await write()
    assert store.last_position() == 0
