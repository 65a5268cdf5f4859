"""A tree is removed whole, and nothing else is (seam.store.Store.remove), over both stores."""

from store_stories import append, asked, created, decided, everything, finished, rows, started

from supervisor.core import events as e
from supervisor.core.calls.rules import allow
from supervisor.core.ids import RULES
from supervisor.store.sqlite.store import SqliteStore


def tree(root, approval, operation="o#1"):
    """A root and a child that asked, was answered, and ended."""
    child = f"{root}-child"
    return [
        (root, created(root)),
        (root, started()),
        (child, created(root, root)),
        (child, started()),
        (child, asked(approval, operation)),
        (child, decided(approval, operation)),
        (child, finished()),
        (root, finished()),
    ]


def remove(store, *roots):
    assert store.begin()
    for root in roots:
        store.remove(root)
    store.commit()


def without_places(found):
    """Return the content of a store, without the position of its next entry."""
    return {key: value for key, value in found.items() if key != "last"}


def test_nothing_is_left_of_a_removed_tree_and_other_trees_stay_whole(store):
    """For a tree in the middle and at the end; its approvals are unknown."""
    append(store, *tree("a", "p"))
    before = everything(store)
    append(store, *tree("b", "q"))
    assert (store.measure("b")[0], store.measure("b")[1] > 100) == (8, True)
    remove(store, "b")
    assert without_places(everything(store)) == without_places(before)
    assert (store.get_session("b-child"), store.get_approval("q"), store.measure("b")) == (None, None, (0, 0))
    remove(store, "a")
    assert (store.rows(0), store.find_sessions(), store.find_approvals(pending=False)) == ([], [], [])


def test_no_position_is_given_twice(store):
    """Else a reader whose cursor is at the last entry would never see the next one."""
    cursor = append(store, *tree("a", "p"))
    remove(store, "a")
    assert store.last_position() == cursor
    assert append(store, ("b", created("b"))) == cursor + 1
    assert [row.session for row in store.rows(cursor)] == ["b"]
    append(store, *tree("c", "p"))
    remove(store, "c")
    assert [row.session for row in store.rows(0)] == ["b"]
    append(store, ("a", created("a")))
    assert store.get_session("a").root == "a"


def test_a_removal_that_is_rolled_back_leaves_no_trace(store):
    """It is part of a transaction like any other change."""
    append(store, *tree("a", "p"))
    before = everything(store)
    assert store.begin()
    store.remove("a")
    store.rollback()
    assert everything(store) == before


def test_a_tree_may_begin_again_in_the_transaction_that_removes_it(store):
    """A prune and a start may be committed together; the tree is then the new one."""
    cursor = append(store, *tree("a", "p"))
    assert store.begin()
    store.remove("a")
    assert store.claim("a") is None
    store.write(rows(store, ("a", created("a")), ("a", asked("p"))))
    store.commit()
    assert [row.position for row in store.rows(0)] == [cursor + 1, cursor + 2]
    assert [found.status for found in store.find_approvals(pending=False)] == ["pending"]
    assert store.owns("a")
    remove(store, "a")
    assert (store.owns("a"), store.get_owner("a")) == (False, None)


def test_rules_that_decisions_made_stay(store):
    """An "always" outlives the session in which it was decided (A7)."""
    append(store, *tree("a", "p"))
    rule = e.RuleAdded(at=finished().at, rule=allow("shell", "git status"), by="ben", approval="p")
    append(store, (RULES, rule))
    remove(store, "a")
    assert [row.event for row in store.journal(RULES)] == [rule]
    assert [row.session for row in store.rows(0)] == [RULES]


def test_a_process_that_has_the_store_open_goes_on_where_it_was(path):
    """The process does not notice a removal; the file becomes smaller meanwhile, and later entries are seen."""
    store, other = SqliteStore(path), SqliteStore(path)
    store.open()
    other.open()
    for n in range(40):
        append(store, *tree(f"a{n}", f"p{n}", operation="o" * 4000 + "#1"))
    cursor = append(store, ("z", created("z")), *tree("y", "q"))
    assert other.has_changed()
    store.checkpoint()
    size = path.stat().st_size
    remove(store, "y", *(f"a{n}" for n in range(40)))
    store.compact()
    assert not other.has_changed()
    assert path.stat().st_size < size / 4
    append(other, ("z", started()))
    assert [row.event for row in store.rows(cursor)] == [started()]
    assert [row.position for row in other.journal("z")][1:] == [cursor + 1]
    store.close()
    other.close()
