"""A18: what a preview finds out is on disk for the person who decides, and is compared again before the call runs."""

import anyio
import pytest
from scenes import ForkingStore, effects, events, names, opened
from watching import next_of

from supervisor import (
    Approve,
    Context,
    Deny,
    MemoryStore,
    Preview,
    PreviewContext,
    agent,
    allow,
    events as e,
    foreign_tool,
    tool,
)
from supervisor.channels import Channel
from supervisor.core.approvals.facts import facts_of
from supervisor.core.declarations.previews import read_preview

pytestmark = pytest.mark.anyio
rows: list[str] = []
"""What the tools of this module act on."""
held: list[float] = []
"""How many seconds the next preview takes."""
ended: list[float] = []
"""When such a preview ended."""


@pytest.fixture(autouse=True)
def two_rows():
    rows[:] = ["a", "b"]
    held.clear()
    ended.clear()


async def rows_of(ctx: PreviewContext, table: str) -> Preview:
    if held:
        try:
            await anyio.sleep(held.pop())
        finally:
            ended.append(anyio.current_time())
    if table == "gone":
        raise LookupError("no such table")
    return Preview(table=[["row"], *([each] for each in rows)], state=list(rows))


@tool(preview=rows_of)
async def delete(table: str, pin: str = "") -> str:
    effects.append(table)
    return "deleted"


@tool(preview=rows_of, on_change="run")
async def delete_anyway(table: str) -> str:
    effects.append(table)
    return "deleted"


@agent
async def deletes(ctx: Context, table: str) -> tuple[str, str, object]:
    result = await ctx.call(delete, table)
    return result.kind, result.content, result.details.get("effect")


@agent
async def deletes_anyway(ctx: Context, table: str) -> str:
    return (await ctx.call(delete_anyway, table)).kind


@pytest.fixture
def store(new_store):
    return new_store


async def with_evidence(supervisor):
    """Return the one approval that waits, once its preview was taken."""
    with anyio.fail_after(60):
        while True:
            asked = await next_of(supervisor.watch_approvals())
            if asked.evidence:
                return asked
            await anyio.sleep(0.01)


def said_on_card(approval):
    return [fact.text for fact in facts_of(approval, approval.created_at) if fact.kind == "evidence"]


async def test_evidence_comes_after_the_request_and_is_shown(store):
    """The approval has it while it waits, as a fact of its own kind, which no card needs to be whole."""
    async with opened(store) as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        assert asked.evidence[0].text == "row\n---\na\nb"
        (fact,) = said_on_card(asked)
        assert fact.startswith("row\n---\na\nb\n(read at ")
        found = names(store, "s")
        assert found.index("ToolCallRequested") < found.index("EvidenceTaken")
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == ("ok", "deleted", "done")
        assert (await supervisor.get_approval(asked.id)).evidence == ()
    assert effects == ["t"]


@agent
async def claims(ctx: Context) -> str:
    called = foreign_tool("coder.edit", _changed_nothing)
    called.claimed = "-one\n+two"
    return (await ctx.call(called, {"path": "a"})).kind


async def _changed_nothing(arguments) -> None:
    pass


async def test_a_claim_of_the_caller_is_evidence_in_the_append_of_the_request(store):
    """Each store lists it from the first moment on; nothing is read again before the call runs."""
    async with opened(store) as supervisor:
        run = await supervisor.start(claims, session="s")
        asked = await next_of(supervisor.watch_approvals())
        assert [(each.kind, each.text, each.digest) for each in asked.evidence] == [
            ("claim", "-one\n+two", asked.digest)
        ]
        assert asked.evidence == (await supervisor.find_approvals()).items[0].evidence
        found = names(store, "s")
        assert found[found.index("ToolCallRequested") + 1] == "EvidenceTaken"
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await run.result(), found.count("EvidenceTaken")) == ("ok", 1)


async def test_a_call_whose_state_has_changed_is_denied_without_effect(store):
    async with opened(store) as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        rows.append("c")
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == ("denied", "changed since ana approved; call it again", "none")
        assert "ToolCallStarted" not in names(store, "s")
    assert effects == []


async def test_a_tool_may_run_although_its_state_has_changed():
    async with opened() as supervisor:
        run = await supervisor.start(deletes_anyway, "t", session="s")
        asked = await with_evidence(supervisor)
        rows.append("c")
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


async def test_a_preview_that_fails_is_shown_and_blocks_nothing():
    async with opened() as supervisor:
        run = await supervisor.start(deletes, "gone", session="s")
        asked = await with_evidence(supervisor)
        assert "LookupError: no such table" in said_on_card(asked)[0]
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await run.result())[0] == "ok"


async def test_a_preview_that_fails_when_it_is_taken_again_denies_the_call():
    """It cannot say that all is as it was."""
    async with opened() as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        held.append(60.0)
        await supervisor.decide(asked.id, Approve(by="ana"))
        kind, why, effect = await run.result()
        assert (kind, effect, effects) == ("denied", "none", [])
        assert "did not end within 5 s" in why


async def until_held():
    """Wait until a preview has begun: the approval may be seen before."""
    while held:
        await anyio.sleep(0.01)


async def test_a_decision_does_not_wait_for_a_preview_and_ends_it():
    """The call that was decided before there was evidence is compared with none."""
    held.append(4.0)
    async with opened() as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await next_of(supervisor.watch_approvals())
        await until_held()
        began = anyio.current_time()
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await run.result())[0] == "ok"
        assert anyio.current_time() - began < 1
        await anyio.sleep(0.1)
        assert len(ended) == 1


async def test_a_call_that_a_person_denies_is_not_previewed_again():
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        rows.append("c")
        await supervisor.decide(asked.id, Deny(by="ana", reason="no"))
        assert (await run.result())[0] == "denied"
        assert len(events(store, "s", e.EvidenceTaken)) == 1


async def test_a_run_that_is_cancelled_ends_its_preview(store):
    held.append(60.0)
    async with opened(store) as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        await next_of(supervisor.watch_approvals())
        await until_held()
        began = anyio.current_time()
        await supervisor.cancel("s", by="ana")
        assert (await run.outcome()).kind == "cancelled"
        await anyio.sleep(0.1)
        assert anyio.current_time() - began < 1
        assert len(ended) == 1
        assert "EvidenceTaken" not in names(store, "s")


class Broken:
    def __str__(self):
        raise RuntimeError("a cell")


@pytest.mark.parametrize("returned", [[["x"], [Broken()]], 7, [["x"], 7]])
async def test_a_preview_that_cannot_be_drawn_has_failed_and_ends_nothing_else(returned):
    def preview() -> Preview:
        return Preview(table=returned)

    @tool(preview=preview)
    async def odd() -> str:
        return "done"

    @agent
    async def asks_odd(ctx: Context) -> str:
        return (await ctx.call(odd)).kind

    async with opened() as supervisor:
        run = await supervisor.start(asks_odd, session="s")
        asked = await with_evidence(supervisor)
        assert asked.evidence[0].failure
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


async def test_a_call_that_a_rule_allows_has_no_preview(store):
    async with opened(store, rules=[allow("delete")]) as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        assert (await run.result())[0] == "ok"
        assert "EvidenceTaken" not in names(store, "s")


class Wall(Channel):
    """Keeps when and with how much evidence a card was posted."""

    name = "wall"

    def __init__(self):
        self.posts = []

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        self.posts.append((round(anyio.current_time() - self.began, 1), len(approval.evidence)))
        return "card"

    async def retire(self, approval, card): ...


@pytest.mark.parametrize(("seconds", "posts"), [(2.0, [(2.0, 1)]), (4.9, [(4.9, 1)]), (60.0, [(5.0, 0), (5.0, 1)])])
async def test_a_card_waits_for_evidence_and_no_longer_than_its_deadline(seconds, posts):
    """A preview without an end is a failure, which renews the card."""
    wall = Wall()
    held.append(seconds)
    async with opened(channels=[wall]) as supervisor:
        wall.began = anyio.current_time()
        await supervisor.start(deletes, "t", session="s")
        await anyio.sleep(30)
        assert wall.posts == posts
        await supervisor.cancel("s", by="ana")


async def test_evidence_that_a_death_has_prevented_is_taken_by_the_next_process():
    """Whatever was on disk when the process died, the next one has evidence once, and compares it."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await supervisor.start(deletes, "t", session="s")
        await with_evidence(supervisor)
    left = [copy for copy, _ in store.copies if "ToolCallRequested" in names(copy, "s")]
    assert len(left) >= 2
    for copy in left:
        effects.clear()
        rows[:] = ["a", "b"]
        async with opened(copy, adopt=True) as supervisor:
            run = await supervisor.get_run("s")
            asked = await with_evidence(supervisor)
            await anyio.sleep(1)
            rows.append("c")
            await supervisor.decide(asked.id, Approve(by="ana"))
            assert (await run.result())[0] == "denied"
            assert len(events(copy, "s", e.EvidenceTaken)) == 1
        assert effects == []


async def test_a_run_is_not_passivated_while_its_preview_is_taken():
    held.append(4.0)
    async with opened(passivate_after=0.5) as supervisor:
        await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        assert asked.evidence[0].failure == ""


async def test_secret_arguments_are_masked_in_what_a_preview_says():
    def preview(pin: str) -> str:
        return f"uses {pin}"

    @tool(preview=preview, secret=["pin"])
    async def unlock(pin: str) -> str:
        return "open"

    @agent
    async def unlocks(ctx: Context) -> str:
        return (await ctx.call(unlock, "correct-horse")).kind

    async with opened() as supervisor:
        run = await supervisor.start(unlocks, session="s")
        asked = await with_evidence(supervisor)
        assert asked.evidence[0].text == "uses [secret]"
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


@pytest.mark.parametrize("returned", [None, 7, Preview(text="a", diff="b"), Preview(text="x", state=object())])
async def test_a_preview_that_returns_anything_else_has_failed(returned):
    with pytest.raises(Exception, match="the preview returned"):
        read_preview(returned, "the preview")


async def test_a_cell_cannot_imitate_a_row():
    assert read_preview(Preview(table=[["a"], ["1\n2"]]), "p").text == "a\n---\n1⏎2"


async def test_a_preview_takes_arguments_that_the_tool_has():
    with pytest.raises(ValueError, match="no parameter 'ctx'"):
        tool(preview=lambda ctx: "")(delete.fn)
    with pytest.raises(TypeError, match="one mapping"):
        foreign_tool("x", foreign, preview=lambda: "")
    with pytest.raises(ValueError, match="on_change"):
        tool(on_change="run")(delete.fn)


async def foreign(arguments: dict[str, object]) -> str:
    return ""


async def test_an_edit_counts_once_its_evidence_was_seen(store):
    """The first submit says what the preview of the typed arguments found; the same with its code counts."""
    async with opened(store) as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        edited = {"table": "gone", "pin": ""}
        for seen in (None, "", asked.evidence[0].code):
            result = await supervisor.decide(asked.id, Approve(by="ana", arguments=edited, seen=seen))
            assert (result.kind, result.status) == ("unseen", "pending")
            assert "no such table" in result.evidence.failure
        edited = {"table": "u", "pin": ""}
        result = await supervisor.decide(asked.id, Approve(by="ana", arguments=edited, seen=result.seen))
        assert (result.kind, result.evidence.text) == ("unseen", "row\n---\na\nb")
        assert names(store, "s").count("EvidenceWanted") == 2
        assert (await supervisor.decide(asked.id, Approve(by="ana", arguments=edited, seen=result.seen))).is_accepted
        assert await run.result() == ("ok", "deleted", "done")
    assert effects == ["u"]


async def test_an_edited_call_whose_state_has_changed_since_it_was_seen_is_denied():
    async with opened() as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        edited = {"table": "u", "pin": ""}
        result = await supervisor.decide(asked.id, Approve(by="ana", arguments=edited))
        rows.append("c")
        await supervisor.decide(asked.id, Approve(by="ana", arguments=edited, seen=result.seen))
        assert await run.result() == ("denied", "changed since ana approved; call it again", "none")
    assert effects == []


async def test_the_arguments_as_they_were_asked_need_no_second_look():
    async with opened() as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        result = await supervisor.decide(asked.id, Approve(by="ana", arguments={"table": "t", "pin": ""}))
        assert result.kind == "accepted"
        assert await run.result() == ("ok", "deleted", "done")


async def test_an_edit_of_a_run_that_has_left_memory_brings_it_back_to_look():
    async with opened(passivate_after=1) as supervisor:
        run = await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        await anyio.sleep(10)
        edited = {"table": "u", "pin": ""}
        result = await supervisor.decide(asked.id, Approve(by="ana", arguments=edited))
        assert result.evidence.text == "row\n---\na\nb"
        await supervisor.decide(asked.id, Approve(by="ana", arguments=edited, seen=result.seen))
        assert await run.result() == ("ok", "deleted", "done")


async def test_an_edit_that_no_process_can_look_at_decides_nothing():
    """It is wanted on disk, and is there once the session runs again."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await supervisor.start(deletes, "t", session="s")
        asked = await with_evidence(supervisor)
        held.append(1e6)
        edited = Approve(by="ana", arguments={"table": "u", "pin": ""})
        result = await supervisor.decide(asked.id, edited)
        assert (result.kind, result.evidence, result.seen) == ("unseen", None, "")
        assert "submit them again" in result.why
    assert effects == []


async def test_a_secret_that_a_person_types_is_in_no_evidence():
    """Its digest is of the mask."""

    def reads(pin: str) -> str:
        return f"the pin is {pin}"

    @tool(preview=reads, secret=["pin"])
    async def pay(pin: str) -> str:
        effects.append(pin)
        return "paid"

    @agent
    async def pays(ctx: Context) -> str:
        return (await ctx.call(pay, "1234")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(pays, session="s")
        asked = await with_evidence(supervisor)
        edited = {"pin": "98765"}
        result = await supervisor.decide(asked.id, Approve(by="ana", arguments=edited))
        assert "98765" not in result.evidence.text
        await supervisor.decide(asked.id, Approve(by="ana", arguments=edited, seen=result.seen))
        assert await run.result() == "ok"
        assert "98765" not in str([*await supervisor.find_entries("s")])
    assert effects == ["98765"]
