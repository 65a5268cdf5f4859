"""The memory store and the SQLite store are driven side by side with whatever the tables allow, and say the same."""

import tempfile
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Raw
from store_stories import asked, at, cancelled, created, decided, everything, finished, passivated, rows, started

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent
from supervisor.core.session import SessionState
from supervisor.store.memory_store import MemoryStore
from supervisor.store.sqlite import SqliteStore

SESSIONS = ("a", "b", "c")
operations = st.integers(1, 3)
events = st.one_of(
    st.just(started()),
    st.builds(e.AttemptStarted, at=st.just(at(5)), host=st.just("h"), pid=st.just(1)),
    st.builds(lambda n: asked(f"p{n}", f"o#{n}"), operations),
    st.builds(lambda n: asked(None, f"o#{n}"), operations),
    st.builds(lambda n, how: decided(f"p{n}", f"o#{n}", how), operations, st.sampled_from(["approve", "deny"])),
    st.builds(
        lambda n: e.ApprovalWithdrawn(at=at(6), operation=f"o#{n}", approval=f"p{n}", reason="cancelled"), operations
    ),
    st.builds(lambda n: e.OperationAbandoned(at=at(6), operation=f"o#{n}", kind="call"), operations),
    st.builds(lambda n: e.ToolCallStarted(at=at(6), operation=f"o#{n}", host="h", pid=1), operations),
    st.builds(lambda n: e.ToolCallFinished(at=at(6), operation=f"o#{n}", kind="ok", content="é"), operations),
    st.builds(lambda n, due: passivated(f"o#{n}", due_at=due), operations, st.sampled_from([None, at(50), at(70)])),
    st.builds(lambda n: e.CardPosted(at=at(7), approval=f"p{n}", channel="web"), operations),
    st.builds(lambda n: e.CardRetired(at=at(7), approval=f"p{n}", channel="web"), operations),
    st.just(cancelled()),
    st.builds(finished, st.sampled_from(["succeeded", "cancelled"]), value=st.just(Raw(b"[null]"))),
)


class SideBySide(RuleBasedStateMachine):
    """One transaction at a time; what the core refuses is not written, as in a journal."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.stores = (MemoryStore(), SqliteStore(Path(self.folder.name) / "store.db"))
        for store in self.stores:
            store.open()
        self.committed = {}
        self.drafts = None

    def teardown(self):
        for store in self.stores:
            store.close()
        self.folder.cleanup()

    @precondition(lambda self: self.drafts is None)
    @rule()
    def begin(self):
        assert all(store.begin() for store in self.stores)
        self.drafts = {name: state.copy() for name, state in self.committed.items()}
        self.written = 0

    @precondition(lambda self: self.drafts is not None)
    @rule(session=st.sampled_from(SESSIONS), entries=st.lists(events, max_size=4), parent=st.sampled_from(SESSIONS))
    def write(self, session, entries, parent):
        batch = []
        if session not in self.drafts:
            parent = parent if parent in self.drafts else None
            root = self.drafts[parent].facts.root if parent else session
            self.drafts[session] = SessionState(id=session)
            entries = [created(root, parent), *entries]
        for event in entries:
            if getattr(event, "approval", None) is not None:  # ids are unique in a store
                event = type(event)(**{**fields(event), "approval": f"{session}-{event.approval}"})
            try:
                self.drafts[session].apply(event)
            except IllegalEvent:
                continue
            batch.append((session, event))
        for store in self.stores:
            found = rows(store, *batch)
            store.write([type(row)(row.position + self.written, row.session, row.event) for row in found])
        self.written += len(batch)

    @precondition(lambda self: self.drafts is not None)
    @rule(root=st.sampled_from(SESSIONS), is_wanted=st.booleans())
    def own(self, root, is_wanted):
        for store in self.stores:
            assert (store.claim(root) if is_wanted else store.disown(root)) is None

    @precondition(lambda self: self.drafts is not None)
    @rule(is_kept=st.booleans())
    def end(self, is_kept):
        for store in self.stores:
            store.commit() if is_kept else store.rollback()
        if is_kept:
            self.committed = self.drafts
        self.drafts = None

    @precondition(lambda self: self.drafts is None)
    @rule()
    def rebuild(self):
        _, sqlite = self.stores
        assert sqlite.begin()
        sqlite.rebuild()
        sqlite.commit()

    @precondition(lambda self: self.drafts is None)
    @rule()
    def reopen(self):
        for store in self.stores:
            store.close()
            store.open()

    @invariant()
    def say_the_same(self):
        memory, sqlite = self.stores
        assert everything(memory) == everything(sqlite)
        for root in SESSIONS:
            assert memory.owns(root) == sqlite.owns(root) == (sqlite.get_owner(root) is not None)


def fields(event):
    return {name: getattr(event, name) for name in event.__struct_fields__}


TestSideBySide = SideBySide.TestCase
# Each example makes a file and syncs it: few, but long ones.
TestSideBySide.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
