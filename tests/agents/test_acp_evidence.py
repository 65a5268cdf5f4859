"""A18: what a coding agent says that a call would do is evidence next to the call, and a claim."""

from datetime import UTC, datetime

import anyio
import msgspec
import pytest
from acp_inside import Inside
from acp_scenes import allow, asked, events
from scenes import opened

from supervisor import Approve, Context, MemoryStore, agent, allow as allow_rule
from supervisor.agents.acp.permissions import DIFF, TITLE
from supervisor.agents.acp.requests import Requests
from supervisor.agents.acp.saved import Saved
from supervisor.core import events as e
from supervisor.core.approvals.facts import facts_of, is_whole

pytestmark = pytest.mark.anyio
CHANGE = {"type": "diff", "path": "a.py", "oldText": "one\n", "newText": "two\n"}
SHOWN = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n-one\n+two\n "
EDIT = {"kind": "edit", "rawInput": {"path": "a.py"}, "content": [CHANGE]}


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


async def _edits(agent):
    await agent.answer(agent.ask(**EDIT))
    agent.update("tool_call_update", toolCallId="c1", status="completed")


async def test_a_diff_is_on_disk_next_to_its_request_and_is_shown_as_a_claim():
    """It is no argument, so no rule sees it and no digest is of it; a card without it does not show the call whole."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(Inside(_edits).agent(), "go", session="s")
        (approval,) = await asked(supervisor)
        rows = store.journal("s")
        at = next(place for place, row in enumerate(rows) if isinstance(row.event, e.ToolCallRequested))
        request, taken = rows[at].event, rows[at + 1].event
        assert (taken.kind, taken.text, taken.state, taken.digest) == ("claim", SHOWN, "", request.digest)
        assert (taken.at, rows[at + 1].position) == (request.at, rows[at].position + 1)
        assert msgspec.json.decode(request.arguments) == {"path": "a.py", TITLE: "t"}
        facts = facts_of(approval, datetime.now(UTC))
        (fact,) = [each for each in facts if each.label == f'"{DIFF}" (claim)']
        assert (fact.kind, "-one\n+two" in fact.text) == ("claim", True)
        assert is_whole(approval, facts)
        assert not is_whole(approval, [each for each in facts if each is not fact])
        await allow(supervisor, approval)
        assert (await run.outcome()).kind == "succeeded"


async def test_a_call_that_a_rule_allows_has_no_evidence():
    """No person is asked."""
    store = MemoryStore()
    async with opened(store, rules=[allow_rule("inside.edit", '{"path":"a.py"}')]) as supervisor:
        await (await supervisor.start(Inside(_edits).agent(), "go", session="s")).result()
        assert events(store, "s", e.EvidenceTaken) == []


async def test_without_raw_input_a_diff_stays_an_argument():
    """It says what the call is about, so it is part of the call."""

    async def turn(agent):
        await agent.answer(agent.ask(is_raw=False, **{**EDIT, "rawInput": None}))

    async with opened() as supervisor:
        await supervisor.start(Inside(turn).agent(), "go", session="s")
        (approval,) = await asked(supervisor)
        assert (approval.arguments[DIFF], approval.evidence) == (SHOWN, ())


async def test_one_grant_covers_the_edits_of_a_coding_agent_in_its_folder(tmp_path):
    """Those that wait already and those that come later; what it says of them counts for nothing."""
    (tmp_path / "app").mkdir()
    folder, said = str(tmp_path / "app"), []

    async def turn(agent):
        wanted = ["a.py", "b.py", "run.sh", "../c.py"]
        found = [agent.ask(f"c{name}", **EDIT | {"rawInput": {"path": name, "content": "x"}}) for name in wanted]
        await agent.answer(found[0])
        later = [agent.ask("later", **EDIT | {"rawInput": {"path": "d.py", "content": "y"}})]
        said.extend([await agent.answer(each) for each in (*found[:2], *later)])
        await agent.answer(found[2])

    async with opened() as supervisor:
        await supervisor.start(Inside(turn).agent(), "go", session="s", cwd=folder)
        first = next(each for each in await asked(supervisor, 4) if each.arguments["path"] == "a.py")
        grant = Approve(by="ana", scope="session", pattern=f"edits inside {folder}")
        assert len((await supervisor.decide(first.id, grant)).released) == 1
        while len(said) < 3:
            await anyio.sleep(1)
        left = {each.arguments["path"] for each in await supervisor.find_approvals()}
        assert (said, left) == (["allow_once"] * 3, {"run.sh", "../c.py"})


FORMER = {
    "number": 1,
    "asked": [
        {
            "number": 1,
            "tool": "inside.edit",
            "given": {"path": "a.py"},
            "arguments": {"path": "a.py", TITLE: "t", DIFF: SHOWN},
        }
    ],
}
"""What the commit 79721e8 saved of such a request."""
FORMER_DIGEST = "662d6da4d66777a300cd00fe8ac2eca9775f9c236e05237192bbe0cf77dc08ae"
"""What it journaled for it."""


@agent
async def goes_on(ctx: Context) -> None:
    async with anyio.create_task_group() as tasks:
        Requests(ctx, tasks, msgspec.convert(FORMER, Saved), 600.0)


async def test_a_request_that_a_former_version_has_saved_is_asked_as_it_was():
    """Under the same id, with the same digest: the diff stays among its arguments."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(goes_on, session="s")
        (approval,) = await asked(supervisor)
        assert approval.arguments[DIFF] == SHOWN
        (request,) = events(store, "s", e.ToolCallRequested)
        assert request.digest == FORMER_DIGEST
        assert request.operation == f"request1/call:inside.edit:{FORMER_DIGEST[:12]}#1"
        assert events(store, "s", e.EvidenceTaken) == []
