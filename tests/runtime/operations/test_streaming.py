"""Text while it is written: who watches sees it, and it costs no commit and bounded memory."""

import anyio
import pytest
from scenes import ForkingStore, names, opened
from test_reports import CountingStore

from supervisor import Context, InvalidInput, NotFound, StepContext, StreamedText, agent
from supervisor.runtime.journal.texts import LONGEST_CHARACTERS
from supervisor.runtime.reading.streams import PACE_SECONDS

pytestmark = pytest.mark.anyio


async def model(step: StepContext, part: str) -> str:
    step.stream(f"[{part}]")
    return part


def writing_much(seconds: float):
    """Return an agent that writes ten thousand pieces, within so many seconds, and says the whole."""

    @agent
    async def writing(ctx: Context) -> str:
        for n in range(10_000):
            ctx.stream(f"{n} ")
            if n % 100 == 0 and seconds:
                await anyio.sleep(seconds / 100)
        await ctx.send("all of it")
        return "done"

    return writing


async def see(supervisor, session="s") -> list[StreamedText]:
    """Watch the text of a session until its run has ended and nothing is written."""
    seen = []
    async with supervisor.watch_text(session) as watch:
        async for text in watch:
            seen.append(text)
            if not text.text and (await supervisor.get_session(session)).outcome is not None:
                return seen
    raise AssertionError


async def test_a_watcher_sees_the_text_grow_until_the_whole_is_said():
    """It begins with what is there. When the text goes, the message is in the journal, and the run goes on."""

    @agent
    async def writing(ctx: Context) -> None:
        await anyio.sleep(1)
        for piece in ("The tide ", "is ", "low."):
            ctx.stream(piece)
            await anyio.sleep(1)
        await ctx.send("The tide is low.")
        await anyio.sleep(1)

    store = CountingStore()
    async with opened(store) as supervisor:
        await supervisor.start(writing, session="s")
        async with supervisor.watch_text("s") as watch:
            seen = [(await anext(watch)).text for _ in range(5)]
            then = names(store, "s")
    assert seen == ["", "The tide ", "The tide is ", "The tide is low.", ""]
    assert ("MessageSent" in then, "RunFinished" in then) == (True, False)


@pytest.mark.parametrize("seconds", [0, 10])
async def test_ten_thousand_pieces_cost_no_commit_and_a_watcher_gets_the_latest(seconds):
    """A slow watcher misses states in between, and never the last one."""
    store = CountingStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(writing_much(seconds), session="s")
        seen = await see(supervisor)
        assert await run.result() == "done"
    assert store.commits < 10
    assert len(seen) <= 2 + seconds / PACE_SECONDS
    whole = "".join(f"{n} " for n in range(10_000))
    assert all(whole.startswith(each.text) for each in seen if not each.left_out)


@pytest.mark.parametrize("piece", ["a", "語" * 1000, "x" * 3 * LONGEST_CHARACTERS])
async def test_a_long_text_keeps_its_end_in_bounded_memory(piece):
    """And says how much is missing before it."""
    count = 4 * LONGEST_CHARACTERS // len(piece) + 3

    @agent
    async def writing(ctx: Context) -> int:
        for _ in range(count):
            ctx.stream(piece)
        texts = supervisor._runner.hub.texts
        kept = sum(map(len, texts._texts["s"].pieces))
        await anyio.sleep(10)
        return kept

    async with opened() as supervisor:
        run = await supervisor.start(writing, session="s")
        await anyio.sleep(1)
        async with supervisor.watch_text("s") as watch:
            text = await anext(watch)
        assert await run.result() <= 3 * LONGEST_CHARACTERS
    assert text.text == (piece * count)[-LONGEST_CHARACTERS:]
    assert text.left_out == len(piece) * count - LONGEST_CHARACTERS


async def test_nothing_is_shown_again_in_a_replay():
    """Neither what a step showed, nor what the code between operations showed before its journal's end."""
    shown = []

    @agent
    async def writing(ctx: Context) -> None:
        for part in "abc":
            ctx.stream(part)
            await ctx.step(model, part)
            await ctx.send(part)
        await anyio.sleep(5)

    store = ForkingStore()
    async with opened(store) as supervisor:
        add = supervisor._runner.hub.texts.add
        supervisor._runner.hub.texts.add = lambda session, piece: (shown.append(piece), add(session, piece))
        await (await supervisor.start(writing, session="s")).result()
    assert shown == ["a", "[a]", "b", "[b]", "c", "[c]"]
    for copy, _ in store.copies[:-1]:
        done, again = names(copy, "s").count("OperationFinished"), []
        async with opened(copy) as supervisor:
            supervisor._runner.hub.texts.add = lambda session, piece, again=again: again.append(piece)
            await (await supervisor.resume("s")).result()
        assert again == shown[len(shown) - len(again) :]
        assert len(again) <= 6 - done


async def test_the_text_ends_with_its_attempt():
    """Of a run that fails, too; and a stray task shows nothing after the end."""
    kept = []

    @agent
    async def failing(ctx: Context) -> None:
        kept.append(ctx)
        ctx.stream("half a sen")
        await anyio.sleep(1)
        raise ValueError("no more")

    async with opened() as supervisor:
        run = await supervisor.start(failing, session="s")
        await run.outcome()
        kept[0].stream("tence")
        await anyio.sleep(1)
        assert supervisor._runner.hub.texts._texts == {}
        async with supervisor.watch_text("s") as watch:
            assert await anext(watch) == StreamedText()


async def test_a_report_replaces_what_was_written_before_it_once_it_is_on_disk():
    """What is written meanwhile stays."""

    @agent
    async def reporting(ctx: Context) -> None:
        ctx.stream("I look.")
        await ctx.report("text", "I look.")
        ctx.stream("I ")
        await anyio.sleep(10)
        await ctx.send("I see.")

    store = CountingStore()
    seen = []
    async with opened(store) as supervisor:
        await supervisor.start(reporting, session="s")
        async with supervisor.watch_text("s") as watch:
            while "MessageSent" not in names(store, "s"):
                text = await anext(watch)
                seen.append((text.text, "Reported" in names(store, "s")))
    assert seen[-3:] == [("I look.\n\nI ", False), ("I ", True), ("", True)]


async def test_a_piece_is_progress():
    """W5: an agent that only writes does not stall."""

    @agent(inactivity_timeout=2)
    async def writing(ctx: Context) -> str:
        for _ in range(10):
            await anyio.sleep(1)
            ctx.stream("…")
        return "done"

    async with opened() as supervisor:
        assert await (await supervisor.start(writing)).result() == "done"


async def test_a_piece_that_is_no_text_is_refused_and_so_is_an_unknown_session():
    @agent
    async def writing(ctx: Context) -> str:
        ctx.stream("\udcff")
        with pytest.raises(InvalidInput):
            ctx.stream(b"bytes")
        return supervisor._runner.hub.texts.get(ctx.session).text

    async with opened() as supervisor:
        assert await (await supervisor.start(writing)).result() == "\\udcff"
        with pytest.raises(NotFound):
            async with supervisor.watch_text("nowhere"):
                pass


async def test_a_look_shows_the_end_of_what_is_written():
    @agent
    async def writing(ctx: Context) -> None:
        ctx.stream("x" * 1000 + "end")
        await anyio.sleep(10)

    async with opened() as supervisor:
        await supervisor.start(writing, session="s")
        await anyio.sleep(1)
        async with supervisor.watch_activity("s") as watch:
            (activity,) = await watch.look()
    assert activity.writing.endswith("xend")
    assert len(activity.writing) == 400
