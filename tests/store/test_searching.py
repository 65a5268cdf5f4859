"""Approvals are found by what was asked, who decided, and when: in every store the same, never by what is masked."""

import gzip
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from format_steps import opened
from hypothesis import example, given, settings, strategies as st
from msgspec import Raw
from store_stories import append, asked, at, created, decided, everything

from supervisor.core import events as e
from supervisor.core.rows import ApprovalFilter
from supervisor.core.text.masks import find_credentials
from supervisor.core.text.words import words_of
from supervisor.store.index.searching import MOST_CHARACTERS
from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.store import SqliteStore

TOKEN = f"ghp_{'a1' * 18}"
texts = st.one_of(st.text(max_size=30), st.text(st.sampled_from('abAB_-/. éÉ東京ßİ\0"'), max_size=30))
calls = st.lists(
    st.tuples(
        texts, st.sampled_from(["shell", "Shell", ""]), st.sampled_from(["", "approve", "deny"]), st.sampled_from("pq")
    ),
    max_size=6,
)
filters = st.builds(
    ApprovalFilter,
    text=st.none() | texts.filter(words_of),
    by=st.sampled_from([None, None, "p", "r"]),
    tool=st.sampled_from([None, None, "shell", "rm"]),
    agent=st.sampled_from([None, None, "agent", "m:agent"]),
    decided=st.sampled_from([None, None, True, False, "pending", "approved", "denied", "expired"]),
    before=st.sampled_from([None, None, at(1), at(3)]),
    newest_first=st.booleans(),
)


def call(text, **changes):
    return asked(arguments=Raw(msgspec.json.encode({"command": text})), **changes)


def found(store, **only):
    return [each.id for each in store.search_approvals(ApprovalFilter(**only))]


def is_meant(only, text, tool, decision, by):
    """Whether a filter has a call, by the words of the documents."""
    words = words_of(f"{tool} command {text}")
    return (
        all(any(w == each or (len(each) > 2 and w.startswith(each)) for w in words) for each in only.words)
        and only.by in (None, by if decision else "")
        and only.tool in (None, tool)
        and only.agent in (None, "agent")
        and only.before in (None, at(3))
        and only.decided
        in {"": (None, False, "pending"), "approve": (None, True, "approved"), "deny": (None, True, "denied")}[decision]
    )


@settings(deadline=None)
@example([("x rmdir", "shell", "", "p"), ("rm x", "shell", "approve", "p")], ApprovalFilter(text="RM"))
@example([("deploy prod", "shell", "deny", "q"), ("prod", "shell", "", "p")], ApprovalFilter(text="pro deploy"))
@given(calls, filters)
def test_every_store_finds_what_has_all_that_is_searched(made, only):
    """The memory store and the SQLite store, in order, page by page, and after the index was rebuilt."""
    entries = [("a", created())]
    for number, (text, tool, decision, by) in enumerate(made):
        names = {"approval": f"{number}", "operation": f"o#{number}"}
        entries.append(("a", call(text, tool=tool, **names)))
        entries += [("a", decided(**names, decision=decision, by=by))] if decision else []
    meant = [str(number) for number, each in enumerate(made) if is_meant(only, *each)]
    meant = meant[::-1] if only.newest_first else meant
    with tempfile.TemporaryDirectory() as folder:
        for store in (MemoryStore(), SqliteStore(Path(folder) / "store.db")):
            store.open()
            append(store, *entries)
            pages, after = [], None
            while page := store.search_approvals(only, root="a", after=after, limit=2):
                pages += [each.id for each in page]
                after = page[-1].position
            assert pages == meant
            store.close()


def test_masked_values_are_not_in_the_index(path):
    """Declared secrets with all they have, and credentials of known forms, as names, or where the limit
    would cut one."""
    long = f"{'x ' * (MOST_CHARACTERS // 2 - 12)}{TOKEN}"
    arguments = {"key": {"inner": "hunter2zz"}, "to": f"use {TOKEN} now", TOKEN.replace("a1", "b2"): 1, "long": long}
    given = {"arguments": Raw(msgspec.json.encode(arguments)), "secret": ("key",), "because": f"Bearer {TOKEN}"}
    question = e.QuestionAsked(
        at=at(1), operation="o#2", approval="q", question=f"is it {TOKEN}?", digest="d", choices=(TOKEN, "no")
    )
    with opened(path) as store:
        append(store, ("a", created()), ("a", asked(**given)), ("a", question))
        assert (found(store, text="use now"), found(store, text="is it")) == (["p"], ["q"])
        kept = " ".join(words for (words,) in store._reader.execute("SELECT words FROM asked_words"))
    assert "hunter2zz" not in kept
    assert not any(part in kept for part in ("ghp", "a1a1", "b2b2"))
    assert [*find_credentials(kept)] == []


def test_words_are_removed_with_their_tree_and_computed_again(path):
    """From the events alone: the index is the same afterwards."""
    with opened(path) as store:
        for name in ("a", "b"):
            append(store, (name, created(name)), (name, call(f"deploy {name}x", approval=f"p{name}")))
        append(store, ("a", decided("pa")))
        before = everything(store)
        assert store.begin()
        store.rebuild()
        store.commit()
        assert everything(store) == before
        assert found(store, text="deploy") == ["pa", "pb"]
        assert store.begin()
        store.remove("a")
        store.commit()
        assert found(store, text="deploy") == ["pb"]
        assert store._reader.execute("SELECT count(*) FROM asked_words").fetchone() == (1,)


def test_an_older_store_can_be_searched_after_its_upgrade(tmp_path):
    """A step cannot mask: the program computes the index again, once, and forgets that it had to."""
    path = tmp_path / "state.db"
    with gzip.open(Path(__file__).parent / "formats" / "8.db.gz") as source, path.open("xb") as file:
        shutil.copyfileobj(source, file)
    for _ in range(2):
        with opened(path) as store:
            (asked_for,) = store.search_approvals(ApprovalFilter(text="app.tar", tool="deploy", agent="release"))
            assert (asked_for.status, store.find_facts("stale")) == ("pending", {})


@pytest.mark.parametrize("arguments", [b'{"a":"\\ud800"}', b"[" * 3000 + b"]" * 3000, b"null"])
def test_a_call_that_cannot_be_decoded_is_kept_and_not_found(store, arguments):
    """No append fails for a search."""
    append(store, ("a", created()), ("a", asked(arguments=Raw(arguments))))
    assert found(store, text="nothing") == []
    assert found(store) == ["p"]
