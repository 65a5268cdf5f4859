"""What each Supervisor returns, next to a store and over HTTP. Type checkers read this file; no test runs it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, assert_type

from supervisor import (
    Activity,
    ActivityWatch,
    AgentView,
    Answer,
    Approval,
    ApproverRule,
    ChatResult,
    Context,
    Counts,
    Fork,
    JobView,
    JournalEntry,
    Message,
    Owner,
    Page,
    People,
    Person,
    PruneResult,
    Rule,
    Run,
    Schedule,
    ScheduleView,
    SendResult,
    ServerUnavailable,
    SessionView,
    StoreSupervisor,
    StreamedText,
    Supervisor,
    TokenHash,
    TreeOwned,
    TreeView,
    Watch,
    agent,
    allow,
    open_remote,
    open_supervisor,
)
from supervisor.channels import Channel, Terminal
from supervisor.events import ApprovalDecided, UnknownEvent
from supervisor.testing import virtual_asyncio, virtual_trio


@agent
async def greets(ctx: Context, name: str = "you") -> str:
    return name


async def commands(s: Supervisor) -> None:
    assert_type(await s.start(greets), Run[str])
    assert_type(await s.resume("s"), Run[Any])
    assert_type(await s.resume_all(), list[Run[Any]])
    assert_type(await s.get_run("s", agent=greets), Run[str])
    assert_type(await s.get_run("s"), Run[Any])
    assert_type(await s.retry("s"), Run[Any])
    assert_type(await s.fork("s", before=3), Fork)
    decided = await s.decide("a", Answer(value=1, by="ana"))
    assert_type(
        decided.kind,
        Literal["accepted", "already", "conflict", "closed", "unknown", "recorded", "refused", "counted", "unseen"],
    )
    assert_type(await s.send("s", "hello"), SendResult)
    assert_type(await s.chat("s", "yes", by="ana", shown_before=datetime.now(UTC)), ChatResult)
    assert_type(await s.add_rule(allow("shell", "ls *"), by="ana"), Rule)
    assert_type(await s.revoke_rule("r"), Rule)
    assert_type(await s.add_schedule(Schedule("n", "greets", cron="0 3 * * *")), ScheduleView)
    assert_type(await s.change_schedule("n", "paused", by="ana"), ScheduleView)
    assert_type(await s.run_schedule("n"), Run[Any])
    try:
        await s.cancel("s", reason="enough")
    except ServerUnavailable as error:
        assert_type(error.maybe_done, bool)
    except TreeOwned as error:
        assert_type(error.root, str)


async def reads(s: Supervisor) -> None:
    assert_type(await s.get_session("s"), SessionView)
    assert_type(await s.get_tree("s", entries=None), TreeView)
    assert_type(await s.get_approval("a"), Approval)
    assert_type(await s.get_transcript("s"), tuple[Message, ...])
    assert_type(await s.get_counts(), Counts)
    assert_type(await s.find_approvals(pending=False), Page[Approval])
    assert_type(await s.find_entries("s", tree=True), Page[JournalEntry])
    assert_type(await s.find_audit(), Page[JournalEntry])
    assert_type(await s.find_rules(), Page[Rule])
    assert_type(await s.find_schedules(), Page[ScheduleView])
    assert_type(await s.find_agents(), Page[AgentView])
    assert_type(await s.find_owners(), Page[Owner])
    assert_type(await s.find_jobs(running=False), Page[JobView])
    page = await s.find_sessions(status="active")
    assert_type(page.next, str | None)
    assert_type(page[0], SessionView)
    assert_type(page[0:2], tuple[SessionView, ...])


async def watches(s: Supervisor) -> None:
    async with s.watch_inbox(after=(await s.find_approvals()).cursor) as inbox:
        assert_type(inbox, Watch[Approval])
        assert_type(inbox.cursor, str)
        assert_type(await anext(inbox), Approval)
    async with s.watch_approvals(session="s") as approvals:
        assert_type(await anext(approvals), Approval)
    async with s.watch_session("s", stay=True) as journal:
        async for row in journal:
            if isinstance(row.event, ApprovalDecided):
                assert_type(row.event.by, str)
            elif isinstance(row.event, UnknownEvent):
                assert_type(row.event.fields, dict[str, Any])
    async with s.watch_activity() as activity:
        assert_type(activity, ActivityWatch)
        assert_type(await activity.look(limit=None), Page[Activity])
    async with s.watch_text("s") as text:
        assert_type(await anext(text), StreamedText)


class Wall(Channel):
    name = "wall"

    async def serve(self, supervisor: Supervisor) -> None:
        await commands(supervisor)

    async def post(self, approval: Approval, card: str | None) -> str:
        return approval.id

    async def retire(self, approval: Approval, card: str) -> None: ...


async def opened() -> None:
    ana = Person(name="ana", roles=("operator",), tokens=(TokenHash("x"),))
    people = People([ana], [ApproverRule(approvers=("ana",))])
    async with open_supervisor("s.db", agents=[greets], people=people, channels=[Terminal(), Wall()]) as local:
        assert_type(local, StoreSupervisor)
        assert_type(local.refusals, Mapping[str, str])
        assert_type(await local.prune(datetime.now(UTC), dry_run=True), PruneResult)
    async with open_remote("https://agents.example", token=lambda: "t", reconnect_timeout=3) as remote:
        assert_type(remote, Supervisor)
        await reads(remote)


BACKENDS = (virtual_asyncio(), virtual_trio())
