"""Releasing: the owner of a tree lets the rules that decisions have made decide what waits in it (A13).

A decision releases equal calls of its own tree in its own append (decide.py). This does it for the other trees, and for
what was asked in that very moment.

Rules
- It happens when a decision makes or confirms a rule, here or in another process, and when a tree is loaded: for each
  such decision whose rule stands, if the call asked before it. Both come to the same, so a process that dies in between
  leaves nothing undone.
- A person who adds a rule may let it decide what waits, too: in all trees at once, also in those of other processes,
  since a decision needs no owner. If the process dies meanwhile, the same rule added again decides the rest.
- A store that refuses an append is logged. The calls go on waiting for a person, and the next load tries again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from anyio.lowlevel import checkpoint

from supervisor.core import events as e
from supervisor.core.errors import StoreError
from supervisor.core.rows import JournalEntry
from supervisor.core.values import Approval
from supervisor.runtime.clock.patience import endless
from supervisor.runtime.journal.pages import pages_of
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.admission import Admission
from supervisor.runtime.plans.release import Made, covered, made, released
from supervisor.runtime.plans.rules import book
from supervisor.runtime.reading.pieces import PIECE
from supervisor.system.logs import FactLog

log = FactLog(__name__)


class Releasing:
    """Make it before the runner claims a tree."""

    def __init__(self, runner: Runner, admission: Admission) -> None:
        self._runner = runner
        self._admission = admission
        runner.listen({e.RuleAdded}, self._added)
        runner.launcher.claimed.connect(self._claimed)

    def _added(self, row: JournalEntry) -> None:
        if isinstance(row.event, e.RuleAdded) and row.event.approval is not None:
            self._begin([str(row.event.rule.id)], row.event.rule.session)

    def _claimed(self, trees: Iterable[str]) -> None:
        try:
            rules = book(self._runner.journal.look())
        except StoreError:
            return  # no call runs while the rules cannot be read, and the log says so
        for root in trees if rules.made else ():
            found = [name for name in rules.made if rules.standing[name].session in (None, root)]
            if found:
                self._begin(found, root)

    def _begin(self, rules: list[str], root: str | None) -> None:
        """Let rules decide what waits in the tree of a root, or in every tree of this process."""
        runner = self._runner
        if not (runner.is_closed or runner.only_replays or runner.environment.is_former):
            runner.start_soon(self.release, lambda view: made(view, rules), root)

    async def release(self, find: Callable[[View], list[Made]], root: str | None) -> None:
        """Let rules decide what waits. `find`: returns them, with the decisions that have made them. `root`: only what
        waits in its tree."""
        try:
            await endless(release)(self._runner, self._admission, find, root, self._runner.journal.store.owns)
        except StoreError as error:
            log.error("approvals.not_released", root=root, reason=str(error))


async def release(
    runner: Runner,
    admission: Admission,
    find: Callable[[View], list[Made]],
    root: str | None,
    includes: Callable[[str], bool] = lambda root: True,
) -> set[str]:
    """Let rules decide what waits; see Releasing. `includes`: whether they decide in the tree of a root. Return the
    roots of the trees in which they did. Raises StoreError."""
    journal, roots = runner.journal, set[str]()
    for some in pages_of(journal.store.find_approvals, PIECE, root=root):
        here = [each for each in some if includes(each.root_session)]
        if any(covered(each, here) for each in find(journal.look())):
            plan = partial(_entries, runner, admission, find, here)
            roots |= await journal.append_with_answer(plan)
        else:
            await checkpoint()
    return roots


def _entries(
    runner: Runner,
    admission: Admission,
    find: Callable[[View], list[Made]],
    approvals: Sequence[Approval],
    view: View,
) -> tuple[list[Entry], set[str]]:
    entries, done, roots, planned = list[Entry](), set[str](), set[str](), dict[str, int]()
    for said in find(view):
        for state, event, uses in released(
            view,
            runner.rules,
            said,
            [each for each in approvals if each.id not in done],
            now=runner.clock.now(),
            has_passed=runner.clock.has_passed,
            may=admission.may_decide,
            settle=runner.environment.settle,
            ours=runner.environment.files_of_ours,
            planned=planned,
        ):
            done.add(event.approval)
            roots.add(state.facts.root)
            entries += [(state.id, event), *uses, *runner.follow(state, event)]
    return entries, roots
