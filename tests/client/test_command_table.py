"""What each command of a person gives, on each Supervisor, to whom and where: one table, and a test of each cell.

    allowed     a person who may. The command has its effect, once
    stranger    a person without the role: NotEntitled, no effect, and the audit trail says who tried (A4, A15)
    inside      a process that a supervised call has started: NotEntitled and no effect (A4)
    repeated    the answer to the command is lost, and the same is done again: the same answer, and one effect

    works       no error, and the effect                refused     NotEntitled, and no effect
    audited     refused, and in the audit trail         same        as the first time, and one effect
    says        an error says that it was done, or may have been; one effect
    twice       the effect happens a second time        -           no such cell

There is no cell of a stranger for a command that names no person, and none over HTTP for what a server does itself
(notes, imports, pruning). Trees on Temporal take long to begin, so `allowed` is left to tests/client/test_both_sides.py
there, and `repeated` to tests/temporal/test_temporal_lost_answers.py. What the command line refuses inside a call is a
table of its own: tests/cli/test_inside_table.py.

A cell such as `works!refused` is known to be wrong: it gives the first today, and must give the second. Whoever mends
it writes the second alone; until then the cell must stay wrong in the same way.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
import scene_agents as scenes
from anyio.abc import ByteStream, SocketAttribute
from sides import EVERYBODY, person, serving

from supervisor import (
    Answer,
    Approve,
    Budget,
    Deny,
    InvalidInput,
    MemoryStore,
    NotEntitled,
    NotFound,
    Origin,
    People,
    Schedule,
    SqliteStore,
    Supervisor,
    SupervisorError,
    deny,
    events as e,
    open_remote,
    open_supervisor,
)
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.marker import CALL_MARKER
from supervisor.core.store_urls import read_temporal_url
from supervisor.seam.commands import LAWS

TABLE = """
               | store: allowed stranger inside         repeated     | client: allowed stranger inside         repeated | temporal: allowed stranger inside         repeated
start          |        works   audited  works          same         |         works   audited  works          same     |           -       audited  works          -
resume         |        works   audited  refused        same         |         works   audited  works          says     |           -       audited  refused        -
resume_all     |        works   audited  refused        same         |         works   audited  works          says     |           -       audited  refused        -
approve        |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
deny           |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
decide_all     |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
answer         |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
chat word      |        works   audited  refused        same         |         works   audited  works          says     |           -       audited  refused        -
chat text      |        works   audited  refused        twice        |         works   audited  works          says     |           -       audited  refused        -
send           |        works   audited  refused        twice        |         works   audited  works          says     |           -       audited  refused        -
cancel         |        works   audited  works          same         |         works   audited  works          same     |           -       audited  refused        -
retry          |        works   audited  refused        says         |         works   audited  works          says     |           -       audited  refused        -
fork           |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
add_rule       |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
raise_budget   |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
revoke_rule    |        works   audited  refused        says         |         works   audited  works          says     |           -       audited  refused        -
acknowledge    |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
snooze         |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
add_schedule   |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
change_schedule|        works   audited  refused        same         |         works   audited  works          says     |           -       audited  refused        -
run_schedule   |        works   audited  refused        same         |         works   audited  works          same     |           -       audited  refused        -
reveal         |        works   audited  refused        twice        |         works   audited  works          says     |           -       audited  refused        -
note_refusal   |        works   -        works          same         |         -       -        -              -        |           -       -        works          -
note_shown     |        works   -        works          twice        |         -       -        -              -        |           -       -        works          -
import         |        works   -        refused        same         |         -       -        -              -        |           -       -        refused        -
prune          |        works   -        refused        same         |         -       -        -              -        |           -       -        -              -
"""  # noqa: E501 # a table


class Cell(NamedTuple):
    command: str
    kind: str
    situation: str
    given: str
    """What it gives today."""
    right: str
    """What it must give."""


def cells() -> list[Cell]:
    """Return the cells of the table, without those that are not so."""
    head, *rows = TABLE.strip("\n").splitlines()
    columns = [(part.split(":")[0].strip(), part.split(":")[1].split()) for part in head.split("|")[1:]]
    found = []
    for row in rows:
        command, *parts = row.split("|")
        for (kind, situations), part in zip(columns, parts, strict=True):
            for situation, word in zip(situations, part.split(), strict=True):
                given, _, right = word.partition("!")
                if given != "-":
                    found.append(Cell(command.strip(), kind, situation, given, right or given))
    return found


_prefixes = count(1)
OLD = "old"
"""A session that an earlier process has left."""
MADE = ("new", "fork", "i")
"""The ends of the names of sessions that commands make."""


class World:
    """`near`: prepares and looks. `far`: gives the command. `session`: what the command is about, if anything."""

    def __init__(self, near: Supervisor, far: Supervisor) -> None:
        self.near = near
        self.far = far
        self.prefix = f"c{os.getpid()}-{next(_prefixes)}-"
        self.session = ""
        self._begun: dict[Any, tuple[str, str]] = {}

    async def prepare(self, row: "Row") -> str:
        """Return what a command is about; commands that are about the same share it."""
        if row.begin not in self._begun:
            of = await row.begin(self)
            self._begun[row.begin] = of, self.session
        of, self.session = self._begun[row.begin]
        return of

    async def begin(self, agent: Any, *given: Any) -> str:
        """Start an agent, and return its session."""
        self.session = f"{self.prefix}{agent.name.replace('_', '-')}"
        await self.near.start(agent, *given, session=self.session, requester="olga")
        return self.session

    async def ask(self, agent: Any, *given: Any) -> str:
        """Start an agent that asks, and return the approval's id."""
        session = await self.begin(agent, *given)
        async with (await self.near.get_run(session)).watch_approvals() as watch:
            return (await anext(watch)).id

    async def count(self, effect: Any) -> int:
        """Return how often an effect has happened: events of a class, or rules that hold."""
        if effect in ("schedules", "paused"):
            found = [each for each in await self.near.find_schedules() if each.schedule.name.startswith(self.prefix)]
            return sum(each.is_paused for each in found) if effect == "paused" else len(found)
        if effect == "rules":
            return sum(rule.tool.startswith(self.prefix) for rule in await self.near.find_rules())
        found = 0
        for session in {OLD, self.session or OLD, *(f"{self.prefix}{each}" for each in MADE)}:
            with suppress(NotFound):
                rows = await self.near.find_entries(session, limit=None)
                found += sum(isinstance(row.event, effect) for row in rows)
        return found

    async def is_audited(self, by: str) -> bool:
        """Whether the audit trail says that this person was refused."""
        refusals = (e.CommandRefused, e.DecisionRefused)
        trail = await self.near.find_audit(limit=None)
        return any(isinstance(row.event, refusals) and row.event.by == by for row in trail)


class Row(NamedTuple):
    """A command: what it needs, how it is given, and what it leaves. `act` returns its answer as far as a repeated
    command must give it again."""

    begin: Callable[[World], Awaitable[str]]
    act: Callable[[World, str, str], Awaitable[Any]]
    effect: Any
    """The class of its event, or "rules", "schedules", "paused"; None if it leaves nothing."""
    change: int = 1
    """How much more of that there is."""


async def nothing(world: World) -> str:
    return ""


async def a_call(world: World) -> str:
    return await world.ask(scenes.noting_one, "bread")


async def a_question(world: World) -> str:
    return await world.ask(scenes.polling)


async def one_that_hears(world: World) -> str:
    return await world.begin(scenes.listening, 2)


async def one_that_failed(world: World) -> str:
    session = await world.begin(scenes.chancy)
    await (await world.near.get_run(session)).outcome()
    return session


async def a_rule(world: World) -> str:
    return (await world.near.add_rule(deny(f"{world.prefix}tool"), by="olga")).id


def schedule_of(world: World) -> Schedule:
    return Schedule(f"{world.prefix}s", "sleeper", 0.0, cron="0 0 1 1 *")


async def a_schedule(world: World) -> str:
    with suppress(InvalidInput):  # on Temporal there are none
        await world.near.add_schedule(schedule_of(world), by="olga")
    return f"{world.prefix}s"


async def add_schedule(world: World, of: str, by: str) -> Any:
    return (await world.far.add_schedule(schedule_of(world), by=by)).schedule


async def change_schedule(world: World, of: str, by: str) -> Any:
    return (await world.far.change_schedule(of, "paused", by=by)).is_paused


async def run_schedule(world: World, of: str, by: str) -> Any:
    run = await world.far.run_schedule(of, session=f"{world.prefix}new", by=by)
    return run.session, run.number


async def start(world: World, of: str, by: str) -> Any:
    run = await world.far.start("sleeper", 0.0, session=f"{world.prefix}new", by=by)
    return run.session, run.number


async def decide(world: World, decision: Any, of: str) -> Any:
    result = await world.far.decide(of, decision)
    return result.approval, result.status, result.by, result.is_accepted


async def decide_all(world: World, of: str, by: str) -> Any:
    """Decide one approval in a batch, where a refusal is a result."""
    (result,) = await world.far.decide_all([(of, Approve(by=by))])
    if result.kind == "refused":
        raise NotEntitled(result.why)
    return result.approval, result.status, result.by, result.is_accepted


async def add_rule(world: World, of: str, by: str) -> Any:
    return (await world.far.add_rule(deny(f"{world.prefix}tool"), by=by)).id


async def fork(world: World, of: str, by: str) -> Any:
    return (await world.far.fork(world.session, before=3, new=f"{world.prefix}fork", by=by)).session


async def retry(world: World, of: str, by: str) -> Any:
    return (await world.far.retry(of, by=by)).number


async def say(world: World, of: str, by: str) -> Any:
    return (await world.far.send(of, "hello", by=by)).message


async def chat(world: World, session: str, text: str, by: str) -> Any:
    found = await world.far.chat(session, text, by=by, shown=[text.rpartition(" ")[2]])
    if refused := [each for each in found.results if each.kind == "unknown"]:
        raise AssertionError(refused)
    return [(each.approval, each.status, each.is_accepted) for each in found.results], found.sent and found.sent.message


async def import_one(world: World, of: str, by: str) -> Any:
    origin = Origin("pi", "7", "/sessions/7.jsonl", "0" * 64, "/")
    async with world.far.import_session(f"{world.prefix}i", origin) as importing:
        if not importing.is_finished:
            await importing.finish(0)
        return importing.session


async def prune(world: World, of: str, by: str) -> Any:
    await world.far.prune(datetime.now(UTC) + timedelta(days=1), only=[OLD])


LATER = datetime.now(UTC) + timedelta(hours=9)
COMMANDS = {
    "start": Row(nothing, start, e.SessionCreated),
    "resume": Row(a_call, lambda w, of, by: w.far.resume(w.session, by=by), None),
    "resume_all": Row(a_call, lambda w, of, by: w.far.resume_all(by=by), None),
    "approve": Row(a_call, lambda w, of, by: decide(w, Approve(by=by), of), e.ApprovalDecided),
    "deny": Row(a_call, lambda w, of, by: decide(w, Deny(by=by), of), e.ApprovalDecided),
    "decide_all": Row(a_call, decide_all, e.ApprovalDecided),
    "answer": Row(a_question, lambda w, of, by: decide(w, Answer(value="tea", by=by), of), e.QuestionAnswered),
    "chat word": Row(a_call, lambda w, of, by: chat(w, w.session, f"yes {of}", by), e.ApprovalDecided),
    "chat text": Row(one_that_hears, lambda w, of, by: chat(w, of, "good morning", by), e.MessageReceived),
    "send": Row(one_that_hears, say, e.MessageReceived),
    "cancel": Row(a_call, lambda w, of, by: w.far.cancel(w.session, by=by), e.CancelRequested),
    "raise_budget": Row(a_call, lambda w, of, by: w.far.raise_budget(w.session, Budget(usd=1), by=by), e.BudgetRaised),
    "retry": Row(one_that_failed, retry, e.RunStarted),
    "fork": Row(a_call, fork, e.SessionForked),
    "add_rule": Row(nothing, add_rule, "rules"),
    "revoke_rule": Row(a_rule, lambda w, of, by: w.far.revoke_rule(of, by=by), "rules", -1),
    "acknowledge": Row(a_call, lambda w, of, by: w.far.acknowledge([of], by=by), e.ApprovalHushed),
    "snooze": Row(a_call, lambda w, of, by: w.far.snooze([of], LATER, by=by), e.ApprovalHushed),
    "add_schedule": Row(nothing, add_schedule, "schedules"),
    "change_schedule": Row(a_schedule, change_schedule, "paused"),
    "run_schedule": Row(a_schedule, run_schedule, e.SessionCreated),
    "reveal": Row(a_call, lambda w, of, by: w.far.reveal(of, by=by), e.CredentialsShown),
    "note_refusal": Row(a_call, lambda w, of, by: w.far.note_refusal(of, by="ben", reason="no"), e.DecisionRefused),
    "note_shown": Row(a_call, lambda w, of, by: w.far.note_shown(w.session, "m", channel="c"), e.MessageShown),
    "import": Row(nothing, import_one, e.ImportFinished),
    "prune": Row(nothing, prune, e.SessionCreated, -1),
}


STRANGERS = People([person("olga", "operator"), *(person(f"bob of {command}") for command in COMMANDS)])
"""On Temporal the cells share an audit trail, which names a person and a kind of command once. So each has its own."""
BY_METHOD = {"decide": ("approve", "deny", "answer"), "chat": ("chat word", "chat text"), "import_session": ("import",)}
"""The rows of a method, if they have other names."""


# -- the worlds --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def next_to_a_store(situation: str, folder: Any) -> AsyncIterator[World]:
    """A program that has the store open. A store in memory is its own, so what is inside a call has a file."""
    store = SqliteStore(folder / "state.db") if situation == "inside" else MemoryStore()
    options = {"agents": scenes.SCENES, "people": EVERYBODY, "adopt": True}
    async with open_supervisor(store, **options) as earlier:
        await (await earlier.start("sleeper", 0.0, session=OLD)).outcome()
    async with open_supervisor(store, **options) as supervisor:
        yield World(supervisor, supervisor)
        await end_all(supervisor)


@asynccontextmanager
async def over_http(situation: str, folder: Any) -> AsyncIterator[World]:
    """A client, and a server in this process, which does not look where it is: its store is in memory."""
    async with serving(agents=scenes.SCENES) as (local, url), losing(url) as losing_url:
        who = "bob" if situation == "stranger" else "olga"
        at = losing_url if situation == "repeated" else url
        async with open_remote(at, token=f"token-of-{who}", reconnect_timeout=5) as remote:
            yield World(local, remote)


@asynccontextmanager
async def on_temporal(situation: str, url: str, file: Path) -> AsyncIterator[Supervisor]:
    """A namespace that all cells share. People have roles at its server only, which mirrors it into a file."""
    from supervisor.temporal import open_temporal
    from supervisor.temporal.mirror.store import MirrorFile
    from supervisor.wiring.cluster import open_cluster

    if situation == "stranger":
        given = {"agents": {}, "channels": [], "people": STRANGERS, "reminders": Reminders(), "routes": []}
        opened = open_cluster(read_temporal_url(url), MirrorFile(file, url), **given)
    else:
        opened = open_temporal(url)
    async with opened as supervisor:
        yield supervisor


async def end_all(supervisor: Supervisor) -> None:
    for view in await supervisor.find_sessions(is_open=True):
        await supervisor.cancel(view.id)


WORLDS: dict[str, Callable[[str, Any], AbstractAsyncContextManager[World]]] = {
    "store": next_to_a_store,
    "client": over_http,
}

_loses = False
"""Whether the next answer is lost."""


@asynccontextmanager
async def losing(url: str) -> AsyncIterator[str]:
    """Stand before a server. One answer is lost when that is wanted: the server has done what it was asked."""

    async def serve(client: ByteStream) -> None:
        server = await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2]))
        async with client, server, anyio.create_task_group() as tasks:
            tasks.start_soon(pass_on, client, server, tasks.cancel_scope)
            tasks.start_soon(pass_back, server, client, tasks.cancel_scope)

    async def pass_on(source: ByteStream, sink: ByteStream, scope: anyio.CancelScope) -> None:
        try:
            async for piece in source:
                await sink.send(piece)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        scope.cancel()

    async def pass_back(source: ByteStream, sink: ByteStream, scope: anyio.CancelScope) -> None:
        global _loses
        try:
            async for piece in source:
                if _loses:
                    _loses = False
                    break
                await sink.send(piece)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        scope.cancel()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


# -- the cells ---------------------------------------------------------------------------------------------------------


async def play(cell: Cell, world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the command of a cell in its situation; return the word for what it gives."""
    row, by = COMMANDS[cell.command], "olga"
    if cell.situation == "stranger":
        by = f"bob of {cell.command}" if cell.kind == "temporal" else "bob"
    of = await world.prepare(row)
    before = 0 if row.effect is None else await world.count(row.effect)
    if cell.situation == "inside":
        monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
    word = await (given_twice if cell.situation == "repeated" else given_once)(cell, row, world, of, by)
    monkeypatch.delenv(CALL_MARKER, raising=False)
    if row.effect is not None:
        happened = (await world.count(row.effect) - before) * row.change
        if word in ("refused", "audited"):
            assert happened == 0, f"{word}, and the effect all the same"
        elif happened != 1:
            return "twice" if happened == 2 else f"{word}, with {happened} effects"
    return word


async def given_once(cell: Cell, row: Row, world: World, of: str, by: str) -> str:
    try:
        await row.act(world, of, by)
    except NotEntitled:
        return "audited" if await world.is_audited(by) else "refused"
    return "works"


async def given_twice(cell: Cell, row: Row, world: World, of: str, by: str) -> str:
    """The client loses the answer, and repeats the command by itself or says what may have been done. A program next to
    the store gives it twice."""
    if cell.kind == "client":
        global _loses
        await world.far.get_counts()  # connects
        _loses = True
    try:
        first = await row.act(world, of, by)
        if cell.kind == "client":
            return "same"
        again = await row.act(world, of, by)
    except SupervisorError:
        return "says"
    finally:
        assert not _loses, "no answer was lost"
    return "same" if first == again or row.effect is None else "other"


def test_each_command_of_a_supervisor_has_a_row():
    """A new method has to say who may call it, and where."""
    named = {row for law in LAWS.values() for row in BY_METHOD.get(law.method, (law.method,))}
    assert named == {*COMMANDS} == {line.split("|")[0].strip() for line in TABLE.strip().splitlines()[1:]}


HERE = [pytest.param(cell, id="-".join(cell[:3])) for cell in cells() if cell.kind in WORLDS]
SITUATIONS = list(dict.fromkeys(cell.situation for cell in cells() if cell.kind == "temporal"))


@pytest.mark.anyio
@pytest.mark.parametrize("cell", HERE)
async def test_a_command_gives_what_the_table_says(cell, tmp_path, monkeypatch):
    """Next to a store, and over HTTP. A cell that is known to be wrong fails as soon as it is right."""
    with anyio.fail_after(60):
        async with WORLDS[cell.kind](cell.situation, tmp_path) as world:
            word = await play(cell, world, monkeypatch)
    assert word == cell.given, f"it gives {word!r}; if that is right now, write it into the table"


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "situation"), [("temporal", each) for each in SITUATIONS])
async def test_on_temporal_all_commands_give_what_the_table_says(
    kind, situation, shared_namespace, tmp_path, monkeypatch
):
    """All cells of a column in one test, since a namespace and its sessions take long to begin."""
    column = [cell for cell in cells() if (cell.kind, cell.situation) == (kind, situation)]
    words = {}
    with anyio.fail_after(120):
        async with on_temporal(situation, shared_namespace, tmp_path / "mirror.db") as supervisor:
            world = World(supervisor, supervisor)
            for cell in sorted(column, key=lambda cell: cell.command == "cancel"):  # it ends what others are about
                words[cell.command] = await play(cell, world, monkeypatch)
    assert words == {cell.command: cell.given for cell in column}, "what is right now is written into the table"
