"""Commands about a session in any phase: what cannot be done is said, and never found out by the journal."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from scenes import deploy, opened
from watching import next_of

from supervisor import Approve, Budget, Context, Deny, InvalidInput, NotFound, SessionConflict, agent, allow
from supervisor.core.sessions.trees import Origin

pytestmark = pytest.mark.anyio
ORIGIN = Origin("pi v3", "its-own-id", "/there.jsonl", "digest", "/project")
LATER = datetime.now(UTC) + timedelta(days=400)


@agent(stop_timeout=100)
async def cleans_for_long(ctx: Context, text: str) -> str:
    try:
        await ctx.call(deploy, text)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(50)
    return "done"


COMMANDS = {
    "raise_budget": lambda supervisor, session, approval: supervisor.raise_budget(session, Budget(calls=9)),
    "send": lambda supervisor, session, approval: supervisor.send(session, "well?"),
    "chat": lambda supervisor, session, approval: supervisor.chat(session, "yes"),
    "cancel": lambda supervisor, session, approval: supervisor.cancel(session),
    "resume": lambda supervisor, session, approval: supervisor.resume(session),
    "resume_all": lambda supervisor, session, approval: supervisor.resume_all(),
    "retry": lambda supervisor, session, approval: supervisor.retry(session),
    "fork": lambda supervisor, session, approval: supervisor.fork(session, before=3),
    "start": lambda supervisor, session, approval: supervisor.start(cleans_for_long, "x", session=session),
    "acknowledge": lambda supervisor, session, approval: supervisor.acknowledge([approval]),
    "snooze": lambda supervisor, session, approval: supervisor.snooze([approval], LATER),
    "reveal": lambda supervisor, session, approval: supervisor.reveal(approval),
    "note_refusal": lambda supervisor, session, approval: supervisor.note_refusal(approval, by="bob", reason="no"),
    "decide": lambda supervisor, session, approval: supervisor.decide(approval, Approve(by="ana", uses=2)),
    "decide_all": lambda supervisor, session, approval: supervisor.decide_all([(approval, Deny(by="ana"))] * 2),
    "add_rule": lambda supervisor, session, approval: supervisor.add_rule(
        allow(deploy, session=session, uses=1), pending=True
    ),
    "prune": lambda supervisor, session, approval: supervisor.prune(LATER),
}


@pytest.mark.parametrize("phase", ["waiting", "stopping", "ended", "imported"])
async def test_a_command_fits_the_phase_of_its_session_or_says_why_not(phase):
    async with opened() as supervisor:
        for session, command in COMMANDS.items():
            approval = ""
            if phase == "imported":  # the import has stopped half-way
                async with supervisor.import_session(session, ORIGIN, agent=cleans_for_long):
                    pass
            else:
                run = await supervisor.start(cleans_for_long, "x", session=session)
                approval = (await next_of(run.watch_approvals())).id
            if phase in ("stopping", "ended"):
                await run.cancel()
            if phase == "ended":
                await run.outcome()
            with suppress(InvalidInput, NotFound, SessionConflict):
                await command(supervisor, session, approval)
            await supervisor.cancel(session)
