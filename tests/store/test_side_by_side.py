"""The memory store and one in a database are driven side by side with whatever the tables allow, and say the same.

Another process writes to the database now and then.
"""

import secrets
import tempfile
from functools import partial
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec import Raw
from msgspec.structs import replace
from store_stories import asked, at, cancelled, created, decided, everything, finished, passivated, rows, ruled, started

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent
from supervisor.core.ids import RULES
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.core.usage import Usage
from supervisor.store.memory import MemoryStore
from supervisor.store.postgres.store import PostgresStore
from supervisor.store.sqlite.store import SqliteStore

SESSIONS = ("a", "b", "c")
operations = st.integers(1, 2)
events = st.one_of(
    st.builds(e.AttemptStarted, at=st.just(at(5)), host=st.just("h"), pid=st.just(1)),
    st.builds(lambda n: asked(f"p{n}", f"o#{n}"), operations),
    st.builds(lambda n: asked(None, f"o#{n}"), operations),
    st.builds(lambda n, how: decided(f"p{n}", f"o#{n}", how), operations, st.sampled_from(["approve", "deny"])),
    st.builds(
        lambda n: e.ApprovalWithdrawn(at=at(6), operation=f"o#{n}", approval=f"p{n}", reason="cancelled"), operations
    ),
    st.builds(lambda n: e.OperationAbandoned(at=at(6), operation=f"o#{n}", kind="call", approval=f"p{n}"), operations),
    st.builds(lambda n: e.ToolCallStarted(at=at(6), operation=f"o#{n}", host="h", pid=1), operations),
    st.builds(lambda n: e.ToolCallFinished(at=at(6), operation=f"o#{n}", kind="ok", content="é"), operations),
    st.builds(lambda n, due: passivated(f"o#{n}", due_at=due), operations, st.sampled_from([None, at(50), at(70)])),
    st.builds(lambda n: e.CardBegun(at=at(7), approval=f"p{n}", channel="web"), operations),
    st.builds(lambda n: e.CardPosted(at=at(7), approval=f"p{n}", channel="web"), operations),
    st.builds(lambda n: e.CardRetired(at=at(7), approval=f"p{n}", channel="web"), operations),
    st.builds(
        lambda n, usd: e.UsageSpent(at=at(7), usage=Usage("m", n, None, n, n, usd)),
        operations,
        st.sampled_from([None, 0.1]),
    ),
    st.builds(lambda n: e.DecisionRefused(at=at(7), approval=f"p{n}", by="eve", reason="no"), operations),
)
# an end is rare, or nothing would happen before it
ends = st.sampled_from([[]] * 8 + [[cancelled()], [finished(value=Raw(b"[null]"))]])


sessions = st.sampled_from(SESSIONS)
batches = st.tuples(sessions, st.lists(events, min_size=3, max_size=8), ends, sessions)


class SideBySide(RuleBasedStateMachine):
    """An event that the core refuses is not written, as in a journal."""

    def __init__(self, server=None):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        file, url = Path(self.folder.name) / "store.db", f"{server}?schema=t{secrets.token_hex(6)}"
        make = partial(SqliteStore, file) if server is None else partial(PostgresStore, url)
        self.stores, self.other = (MemoryStore(), make()), make()
        for store in (*self.stores, self.other):
            store.open()
        self.states = {}

    def teardown(self):
        for store in (*self.stores, self.other):
            store.close()
        self.folder.cleanup()

    @rule(
        batches=st.lists(batches, min_size=1, max_size=3),
        is_kept=st.sampled_from([True, True, True, False]),
        is_other=st.booleans(),
        removed=st.sampled_from([None, None, *SESSIONS]),
    )
    def transact(self, batches, is_kept, is_other, removed):
        drafts = {name: state.draft() for name, state in self.states.items()}
        stores = (self.stores[0], self.other if is_other else self.stores[1])
        assert all(store.begin() for store in stores)
        if removed is not None and not (is_other and self.stores[1].owns(removed)):
            # A tree may begin again in the transaction that removes it.
            drafts = {name: state for name, state in drafts.items() if name == RULES or state.facts.root != removed}
            for store in stores:
                store.remove(removed)
        written = 0
        for session, entries, end, parent in batches:
            legal = list(self.legal(drafts, session, entries + end, parent))
            for store in stores:
                batch = rows(store, *[(session, event) for event in legal])
                store.write([type(row)(row.position + written, row.session, row.event) for row in batch])
            written += len(legal)
        for store in stores:
            store.commit() if is_kept else store.rollback()
        if is_kept:
            for draft in drafts.values():
                draft.land()
            self.states = drafts

    def legal(self, drafts, session, entries, parent):
        if session not in drafts:
            root = drafts[parent].facts.root if parent in drafts else session
            entries = [created(root, parent if parent in drafts else None), started(), *entries]
            drafts[session] = SessionState(id=session)
        for event in entries:
            if getattr(event, "approval", None) is not None:  # ids are unique in a store
                event = replace(event, approval=f"{session}-{event.approval}")
            try:
                drafts[session].apply(event)
            except IllegalEvent:
                continue
            yield event

    @rule(name=st.sampled_from(["r1", "r2"]), is_kept=st.booleans())
    def add_or_revoke_a_rule(self, name, is_kept):
        known = self.states.get(RULES) or replay_journal(RULES, [])
        event = e.RuleRevoked(at=at(9), rule=name, by="ben") if name in known.standing else ruled(name)
        for store in self.stores:
            assert store.begin()
            store.write(rows(store, (RULES, event)))
            store.commit() if is_kept else store.rollback()
        if is_kept:
            known.apply(event)
            self.states[RULES] = known

    @rule(root=sessions, is_kept=st.booleans())
    def own(self, root, is_kept):
        for store in self.stores:
            assert store.begin()
            assert store.claim(root) is None
            store.commit() if is_kept else store.rollback()

    @precondition(lambda self: isinstance(self.other, SqliteStore))  # the other kind has had no reason yet
    @rule()
    def rebuild(self):
        _, sqlite = self.stores
        assert sqlite.begin()
        sqlite.rebuild()
        sqlite.commit()

    @rule()
    def reopen(self):
        for store in self.stores:
            store.close()
            store.open()

    @invariant()
    def say_the_same(self):
        memory, other = self.stores
        assert memory.journal(RULES) == other.journal(RULES)
        assert everything(memory) == everything(other)
        for root in SESSIONS:
            assert memory.owns(root) == other.owns(root) == (other.get_owner(root) is not None)


TestSideBySide = SideBySide.TestCase
# Each example makes a file and syncs it: few examples, but long ones.
TestSideBySide.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_memory_and_postgresql_side_by_side(server):
    run_state_machine_as_test(
        partial(SideBySide, server), settings=settings(max_examples=5, stateful_step_count=20, deadline=None)
    )
