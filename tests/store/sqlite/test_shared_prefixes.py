"""The shared beginning of entries is kept once (store/index/prefixes.py)."""

import sqlite3

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import Raw
from store_stories import append, asked, at, created, decided, everything, finished, rows, started

from supervisor import Context, agent, open_supervisor, tool
from supervisor.core import events as e
from supervisor.core.calls.rules import allow
from supervisor.core.rows import JournalEntry
from supervisor.store.index import prefixes
from supervisor.store.sqlite.store import SqliteStore
from supervisor.testing import replaced

HOSTILE = Raw(b'{"approval":"p","x":1,"y":"\\"approval\\":\\"p\\","}')


@pytest.fixture
def store(path):
    """A store in a file: the memory store has no heads."""
    store = SqliteStore(path)
    store.open()
    yield store
    store.close()


@tool
async def act(note: str) -> str:
    """Do what a person must allow."""
    return note


@agent
async def asks(ctx: Context) -> None:
    """Call it, and wait."""
    await ctx.call(act, "x")


def told():
    """Two trees whose sessions have much in common, and one of another agent."""
    facts = {"file": "/srv/agents.py", "rules": (allow("shell", "ls"),)}
    for name in "ab":
        yield from ((name, created(name, **facts)), (name, started()), (name, asked(f"p-{name}", arguments=HOSTILE)))
        yield from ((name, decided(f"p-{name}")), (name, finished()))
    yield from (("c", created("a", "a", path=("agent", "helper"))), ("c", asked("p")))


def columns(path, query):
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute(query)]
    connection.close()
    return found


def test_every_entry_comes_back_as_it_was(store):
    """Also one whose arguments look like the place of the approval's id, in this process and in another."""
    question = e.QuestionAsked(at=at(), operation="o#3", approval="q", question="which?", digest="d")
    events = [created("s", parent="r"), *(asked(name, arguments=HOSTILE) for name in ("p", None)), question]
    append(store, *(("s", event) for event in events), ("s", e.AttemptSettled(at=at())))
    other = SqliteStore(store.path)
    other.open()
    assert [row.event for row in store.rows(0)] == [row.event for row in other.rows(0)]
    assert [row.event for row in other.journal("s")] == [*events, e.AttemptSettled(at=at())]
    assert [found.id for found in other.find_approvals()] == ["p", "q"]
    other.close()


def test_a_shared_beginning_is_not_written_again(store):
    """An agent's file is in the store once, and so is the id of an approval, except in events that answer it."""
    append(store, *told())
    bodies = columns(store.path, "SELECT body FROM event")
    assert not any(b"/srv/agents.py" in body for body in bodies)
    assert sum(b'"p-a"' in body for body in bodies) == 1
    assert len(columns(store.path, "SELECT text FROM head WHERE text LIKE '%/srv/agents.py%'")) == 1


@pytest.mark.anyio
async def test_the_common_part_of_requests_is_kept_once(path):
    """What today's code makes of a plain request: so an approval that waits takes few bytes beyond its arguments."""
    async with open_supervisor(path) as supervisor:
        await supervisor.start(asks)
        async with supervisor.watch_approvals() as inbox:
            found = await anext(inbox)
        (entry,) = supervisor.store.journal(found.session, only=["ToolCallRequested"])
    (body,) = columns(path, "SELECT body FROM event WHERE approval IS NOT NULL")
    assert set(msgspec.json.decode(body)) == {"at", "operation", "tool", "arguments", "digest"}
    assert all((found.why, found.options, found.allowances, entry.event.minutes))


def test_a_head_has_no_text_of_a_person_model_or_folder(store):
    """So a removed tree leaves none of it behind."""
    append(store, ("a", created(requester="ann", cwd="/home/ann/secret")), ("a", asked(tool="made_up")))
    assert store.begin()
    store.remove("a")
    store.commit()
    texts = "".join(columns(store.path, "SELECT text FROM head"))
    assert not [word for word in ("ann", "made_up", "secret") if word in texts]


def test_when_there_are_too_many_entries_are_written_whole(store, tmp_path, enter):
    """They read the same, also in a list of pending approvals."""
    append(store, *told())
    enter(replaced(prefixes, "MOST", 2))
    full = SqliteStore(tmp_path / "full.db")
    full.open()
    append(full, *told())
    assert everything(full) == everything(store)
    assert [columns(each.path, "SELECT count(*) FROM head") for each in (full, store)] == [[2], [6]]
    assert columns(full.path, "SELECT count(*) FROM event WHERE head IS NULL") == [8]
    full.close()


def test_a_head_that_was_rolled_back_is_made_again(store):
    """Another process may have given its number to another head meanwhile."""
    assert store.begin()
    store.write(rows(store, ("a", created("a")), ("a", started())))
    store.rollback()
    other = SqliteStore(store.path)
    other.open()
    append(other, ("b", created("b", agent="m:other", path=("other",))))
    append(store, ("a", created("a")), ("a", started()))
    for each in (store, other):
        assert [row.agent for row in each.find_sessions()] == ["other", "agent"]
    assert [row.event for row in other.journal("a")] == [created("a"), started()]
    other.close()


FRAGMENTS = ['"approval":"p",', '\\"approval\\":\\"p\\",', '{"event":"', ",", "}", "\\", '"', "é\u2028\0😀", "p"]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=4).map("".join)
values = st.recursive(texts | st.none(), lambda each: st.lists(each, max_size=3) | st.dictionaries(texts, each))
raws = values.map(lambda value: Raw(msgspec.json.encode(value)))
ids = st.text("abp09", min_size=1, max_size=4)
hostile = st.one_of(
    st.builds(asked, st.none() | ids, texts, arguments=raws, tool=texts, patterns=st.lists(texts).map(tuple)),
    st.builds(
        e.QuestionAsked, at=st.just(at()), operation=texts, approval=ids, question=texts, digest=texts, schema=raws
    ),
    st.builds(created, texts, st.none() | texts, agent=texts, path=st.lists(texts).map(tuple), cwd=texts),
    st.builds(decided, ids, texts, by=texts, reason=texts, arguments=raws),
    st.builds(finished, cause=texts, partial=raws, value=raws),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(hostile, min_size=1, max_size=4))
def test_any_entry_is_put_together_as_it_was(store, events):
    """Byte for byte, except for the order of its fields, for any text of an agent or a person."""
    assert store.begin()
    cut = [store._prefixes.cut(JournalEntry(1, "a", event)) for event in events]
    store.commit()
    for event, (number, approval, rest) in zip(events, cut, strict=True):
        body = store._prefixes.join(number, approval, rest)
        assert e.decode_event(body) == event
        assert sorted(body) == sorted(e.encode_event(event))
