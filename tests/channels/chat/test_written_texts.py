"""People read in a chat what an agent is writing: one message, edited now and then, which what it says replaces."""

import itertools

import anyio
import pytest

from supervisor import Context, MemoryStore, agent, open_supervisor
from supervisor.channels.chat.platform import WRITING, Chat
from supervisor.channels.chat.prose import message_ending
from supervisor.channels.chat.telling import Telling
from supervisor.channels.chat.writing import text_of
from supervisor.channels.wording.lengths import length
from supervisor.core.errors import SupervisorError
from supervisor.core.sessions.activity import StreamedText

pytestmark = pytest.mark.anyio
SESSION = "list-1"


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


class ListChat(Chat):
    """A platform in memory. `standing`: id -> (mark, text) of what people see; `done`: (time, what, text) of each
    request; `wrong`: what a request about a text that is being written raises; `slow`: the seconds that it takes."""

    name = "list"
    room = 1000
    can_edit = True

    def __init__(self, standing=()):
        self.standing, self.done, self.wrong, self.slow = dict(standing), [], None, 0.0
        self._ids = itertools.count(100)

    def holds(self, session):
        return session.startswith("list-")

    def note(self, what, text=""):
        self.done.append((anyio.current_time(), what, text))

    async def say(self, piece):
        await anyio.sleep(0.1)
        self.standing[str(next(self._ids))] = piece.mark, piece.text
        self.note("said", piece.text)

    async def show_writing(self, piece, message):
        assert piece.mark == WRITING
        self.note("post" if message is None else "edit", piece.text)
        await anyio.sleep(self.slow)
        if isinstance(self.wrong, (SupervisorError, ConnectionRefusedError)):
            raise self.wrong
        message = message or str(next(self._ids))
        self.standing[message] = piece.mark, piece.text
        if self.wrong is not None:
            raise self.wrong
        return message

    async def remove_writing(self, session, message):
        self.note("remove", message)
        self.standing.pop(message, None)

    async def find_said(self, session):
        return [f"{mark}:{id_}" if mark == WRITING else mark for id_, (mark, _) in self.standing.items()]

    def times(self, *what):
        return [at for at, each, _ in self.done if each in what]

    @property
    def texts(self):
        return [text for _, text in self.standing.values()]


async def write(ctx, seconds):
    """Write a word each tenth of a second."""
    for number in range(int(seconds * 10)):
        ctx.stream(f"{number} ")
        await anyio.sleep(0.1)


@agent
async def writer(ctx: Context, seconds: float) -> None:
    await write(ctx, seconds)
    await ctx.send("the whole")


@agent
async def silent(ctx: Context) -> None:
    await write(ctx, 5)


@agent
async def talker(ctx: Context) -> None:
    await write(ctx, 5)
    await ctx.send("first")
    await write(ctx, 5)
    await ctx.send("second")


async def play(chat, spec, *arguments, seconds=30.0):
    """Let an agent write where people are told by a chat, and return when it has been idle for a while."""
    async with open_supervisor(MemoryStore()) as supervisor, anyio.create_task_group() as tasks:
        telling = Telling(chat, spec.name)
        tasks.start_soon(telling.run, supervisor)
        await anyio.sleep(1)
        await supervisor.start(spec, *arguments, session=SESSION)
        telling.follow(SESSION, is_new=True)
        await anyio.sleep(seconds)
        tasks.cancel_scope.cancel()


async def test_a_text_is_edited_at_most_every_two_seconds_and_what_is_said_replaces_it():
    """One message, of which people never see less than before; it goes when the whole stands below it."""
    chat = ListChat()
    await play(chat, writer, 11.0)
    kinds = [what for _, what, _ in chat.done]
    assert kinds == ["post", *["edit"] * (len(kinds) - 3), "said", "remove"]
    edits = chat.times("post", "edit")
    assert len(edits) in (5, 6)
    assert min(later - earlier for earlier, later in itertools.pairwise(edits)) > 1.999
    shown = [text for _, what, text in chat.done if what in ("post", "edit")]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown))
    assert chat.times("remove")[0] - chat.times("said")[0] < 0.1
    assert chat.texts == ["the whole"]


async def test_a_short_answer_is_one_message():
    chat = ListChat()
    await play(chat, writer, 0.5)
    assert [what for _, what, _ in chat.done] == ["said"]


async def test_a_platform_without_edits_shows_nothing_before_the_whole():
    chat = ListChat()
    chat.can_edit = False
    await play(chat, writer, 11.0)
    assert [what for _, what, _ in chat.done] == ["said"]


async def test_a_text_that_nothing_replaces_is_removed_with_its_run():
    """It is in the memory of a process only, and the agent has not said it."""
    chat = ListChat()
    await play(chat, silent)
    assert (chat.texts, chat.done[-1][1]) == ([], "remove")


async def test_a_text_goes_on_below_what_was_said():
    """People read from the top to the bottom."""
    chat = ListChat()
    await play(chat, talker)
    assert chat.texts == ["first", "second"]
    kinds = [what for _, what, _ in chat.done if what != "edit"]
    assert kinds == ["post", "said", "remove"] * 2


@pytest.mark.parametrize(
    ("wrong", "slow"),
    [
        (ConnectionRefusedError("429"), 0.0),
        (SupervisorError("refused"), 0.0),
        (OSError("500"), 0.0),
        (None, 60.0),
        (None, 8.0),
    ],
    ids=["429", "refused", "500", "hangs", "slow"],
)
async def test_a_message_waits_for_no_edit(wrong, slow):
    """R9: it is posted at once, also if the text before it fails. No text stays, even one we never heard of."""
    chat = ListChat()
    chat.wrong, chat.slow = wrong, slow
    await play(chat, writer, 11.0, seconds=60.0)
    (said,) = chat.times("said")
    assert said == pytest.approx(chat.done[0][0] - 1.0 + 11.0 + 0.1, abs=0.5)
    assert chat.texts == ["the whole"]
    tries = chat.times("post", "edit")
    assert len(tries) == 1 if isinstance(wrong, SupervisorError) else len(tries) <= 4


async def test_a_later_process_removes_what_an_earlier_one_left():
    """Also while the agent of that session says nothing."""
    chat = ListChat({"7": (WRITING, "half a sen"), "8": ("said:1", "hello")})
    store = MemoryStore()
    async with open_supervisor(store) as supervisor:
        await supervisor.start(waiter, session=SESSION)
        await anyio.sleep(1)
    async with open_supervisor(store) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(Telling(chat, "waiter").run, supervisor)
        await anyio.sleep(5)
        assert chat.texts == ["hello"]
        tasks.cancel_scope.cancel()


@agent
async def waiter(ctx: Context) -> None:
    await ctx.receive()


async def test_a_process_that_ends_removes_its_text():
    chat = ListChat()
    await play(chat, writer, 60.0, seconds=10.0)
    assert (chat.texts, chat.done[-1][1]) == ([], "remove")


HOSTILE = "<@U1> @everyone [good](https://evil.example) \x1b[2J \u202e"


@pytest.mark.parametrize("text", [HOSTILE, HOSTILE * 100, "x" * 998 + "y@everyone", "\x00" * 3000])
def test_a_text_is_as_harmless_as_what_is_said(text):
    """No mention, no link that hides its target, no invisible character, and not too long: its end is shown."""
    shown = text_of(StreamedText(text=text, left_out=5 if len(text) > 1000 else 0), 1000)
    assert length(shown) <= 1000
    assert not {"\x1b", "\u202e", "\x00"} & {*shown}
    assert not any(trap in shown.replace("y@everyone", "") for trap in ("<@U1", "@everyone", "](https"))
    assert shown.endswith(("⟨U+202E⟩", "@\u200deveryone", "everyone", "⟨U+0000⟩"))


def test_an_end_of_a_fenced_block_is_a_fenced_block():
    """The first signs of a message decide how the platform draws the rest."""
    lines = "".join(f"line {number}\n" for number in range(300))
    cut = message_ending(f"Look:\n```python\n{lines}", 1000)
    assert cut.startswith("…\n```python\nline ")
    assert cut.endswith("line 299\n\n```")
    assert length(cut) <= 1000
    assert message_ending("short", 1000) == "short"
    assert message_ending("short", 1000, is_cut=True) == "…\nshort"
