"""Tests replace little of the package, and that by `supervisor.testing` alone: most of it can be given, or wrapped.

A test that replaces a function may pass while the package is broken, and breaks when the package is not. Each of these
functions is listed here. A new one needs a reason why no parameter, store, channel, clock or real process does it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
MOST = 25
WAYS = re.compile(r"setattr\(|delattr\(|patch|replaced\(|wrapped\(|^ *[a-z_]+\.[A-Za-z_.]+ = ", re.MULTILINE)
"""What a file has that replaces something. To parse all files would take seconds."""
FUNCTIONS = {
    "bodies._handle",  # a cancel that comes before an activity has shown its first sign of life
    "bodies.resolve",  # a worker that lacks the code of a call
    "Clock.now",  # instants that are the same each time, where goldens are made
    "bridge.is_evicted",  # a workflow that goes on, outside of one
    "forks.send_command",  # a client that dies between the two parts of a fork
    "starting.find_declared",  # a program that has declared no agent, in the process of one that has
    "missing.find_referred",  # the same on a cluster
    "repair.check_writable",  # a writer that comes between two lines
    "schema.check_header",  # a thread that comes between two lines
    "schema.migrate",  # a disk that fails below SQLite
    "starting.Start",  # a tree that moves to its next workflow after few events
    "supervisor.decide",  # a store that takes long, or never answers, for a channel
    "supervisor.watch_session",  # a journal that cannot be read, for a channel
    "supervisor._runner.journal.append",  # a task that goes on late after its commit
    "worker.prepare",  # the server that skips time has no list of search attributes
    "LocalCards.note",  # a server that looks at no mirror
    "Mirror._follow",  # a server of Temporal that refuses
    "Mirror.read",  # a namespace without a worker that answers
    "NamespaceRules.read",  # rules that cannot be read for a while
    "NamespaceCards._read",  # how many are read at a time
    "NamespaceReader.query",  # a client that waits half a second for workers
    "NamespaceRules.change",  # a worker that dies around a change of the rules
    "Passivation.look_at",  # a defect of ours
    "RunningTree._leave_workflow",  # a decision that comes between two lines
    "unstarted._Tasks.activate",  # a core that refuses a query
}
"""What tests let fail, wait or count."""
FORMER = {
    "LocalContext.save",
    "langgraph_run.place_of",
    "tools.may_end_run",
}
"""What a test does as a former version did, to write the journal that it left."""
BOUNDS = {
    "bodies.MOST_THREADS",
    "app.SHUTDOWN_TIMEOUT_SECONDS",
    "calls.ASKED_WITHIN_SECONDS",
    "cards_of_namespace.AT_ONCE",
    "claim.LOOK_SECONDS",
    "cards_of_namespace.STALE",
    "commands.SOON_ENOUGH",
    "connection._WANTED",
    "decisions.SOON_ENOUGH",
    "descendants.PROC",
    "inside.STARTED_BY",
    "limits.MINUTE_SECONDS",
    "long_steps.GIVEN_UP_SECONDS",
    "mirror.LATE",
    "moving.CARRIED_LARGEST_BYTES",
    "moving.UNWIND_SECONDS",
    "overlay.SMALL",
    "owners.BEAT",
    "permissions.FORM",
    "payloads.LARGEST_STORED_BYTES",
    "prefixes.MOST",
    "pulse.LONGEST_SECONDS",
    "pulse.PATIENCE_SECONDS",
    "rescue_module.MOVED_WITHIN_SECONDS",
    "rules.LARGEST_BYTES",
    "rules_workflow.MOST",
    "scheduling.LOOK_SECONDS",
    "scheduling.SETTLING_SECONDS",
    "scheduling.STAND_BACK_SECONDS",
    "schema.PATIENCE_SECONDS",
    "schema.STEPS",
    "sessions.MOST",
    "worker.STOPPED_AFTER_SECONDS",
    "writer.FEW",
    "writer.KEPT",
    "Connection.longest_pause",
    "Connection.shortest_pause",
    "WorkflowEnvironment.most_live",
}
"""Numbers and tables that tests make small enough to reach, or large enough to be cheap."""
STORES = {"_owner.SqliteStore"}
"""What is exchanged where tests of a store in a file run on PostgreSQL (on_postgres.py)."""
OWN = {"HERE", "module", "logger", "thinking"}
"""Names of what belongs to a test: its module, a logger and an agent of its own."""


def imports(tree: ast.Module) -> dict[str, str]:
    """Return the names that a file imports, and the module of each."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: node.module or "" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names}
    return found


def root_of(owner: ast.expr) -> str:
    while isinstance(owner, ast.Attribute | ast.Call | ast.Subscript):
        owner = owner.func if isinstance(owner, ast.Call) else owner.value
    return owner.id if isinstance(owner, ast.Name) else ""


def is_ours(owner: ast.expr, imported: dict[str, str]) -> bool:
    """Whether an object belongs to the package, as far as its name says: what is neither imported from elsewhere nor
    of the test itself may."""
    root = root_of(owner)
    return imported[root].startswith("supervisor") if root in imported else root not in OWN


@cache
def replacing() -> list[tuple[str, list[ast.Call | ast.Assign], dict[str, str]]]:
    """Return the files that may replace something: the calls and assignments of each, and what it imports."""
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        if WAYS.search(text := path.read_text()):
            tree = ast.parse(text)
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Assign)]
            found.append((path.relative_to(TESTS).as_posix(), nodes, imports(tree)))
    return found


def calls(names: set[str]) -> Iterator[tuple[str, ast.Call, dict[str, str]]]:
    """Give the calls of functions of these names, each with its place and with what its file imports."""
    for name, nodes, imported in replacing():
        for node in nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in names:
                yield f"{name}:{node.lineno}", node, imported


def test_no_text_names_what_a_test_replaces():
    """A part that is moved or renamed would take the text out of the sight of every tool that renames."""
    texts = ast.Constant | ast.JoinedStr
    patching = calls({"setattr", "delattr", "patch"})
    assert [place for place, call, _ in patching if call.args and isinstance(call.args[0], texts)] == []


def test_no_test_replaces_a_part_of_the_package_in_another_way():
    """`supervisor.testing` has the ways: they refuse a name that does not exist."""
    found = []
    for place, call, imported in calls({"setattr", "delattr", "object"}):
        way = call.func.value if isinstance(call.func, ast.Attribute) else None
        if way is not None and root_of(way) not in ("logging", "") and call.args and is_ours(call.args[0], imported):
            found.append(place)
    assert found == []


def test_no_test_assigns_to_a_part_of_the_package():
    """It would stay so for all tests after it."""
    found = []
    for name, nodes, imported in replacing():
        ours = {each for each, module in imported.items() if module.startswith("supervisor")}
        for node in nodes:
            targets = node.targets if isinstance(node, ast.Assign) else []
            found += [
                f"{name}:{each.lineno}" for each in targets if isinstance(each, ast.Attribute) and root_of(each) in ours
            ]
    assert found == []


def test_all_that_tests_replace_is_listed_and_little():
    """25 functions of the package, by two functions of `supervisor.testing`; no more than MOST."""
    found = {
        f"{ast.unparse(call.args[0])}.{ast.literal_eval(call.args[1])}"
        for _, call, imported in calls({"replaced", "wrapped"})
        if imported.get(ast.unparse(call.func)) == "supervisor.testing" and is_ours(call.args[0], imported)
    }
    assert found == FUNCTIONS | FORMER | BOUNDS | STORES
    assert len(FUNCTIONS) <= MOST
