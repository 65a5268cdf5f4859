"""Several decisions in one command: of calls by their ids, or of what waits in a session (A16).

Rules
- What a command decides, it has named, or it has printed before. `approve --session` only prints, and says with which
  `--shown` exactly that is approved. `deny --session` reads once, and denies what it prints: a denial runs nothing.
- Each decision has a line of its own. The exit code says whether all of them count.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Final, NamedTuple

from cyclopts import Parameter

from supervisor.channels.wording.cards import summary, told
from supervisor.channels.wording.granting import with_meant_pattern
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import AnyPlace, PersonPlace
from supervisor.core.approvals.listed import find_listed, name_of_list
from supervisor.core.documents import approval_document, decision_document
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.ids import LEAST_CHARACTERS
from supervisor.core.values import Approval, Decision, DecisionResult
from supervisor.seam.supervisor import Supervisor

SessionOption = Annotated[
    str | None, Parameter(name="--session", help="Instead of ids: what waits in this session and below it.")
]
ToolOption = Annotated[str | None, Parameter(name="--tool", help="Of a session: only calls of this tool.")]
_AN_ID: Final = re.compile(f"[a-z0-9]{{{LEAST_CHARACTERS},80}}")
"""Of an id, whole or short: words of a text that has no quotes are mostly something else."""
_EXITS: Final = {"unknown": Exit.NOT_FOUND, "refused": Exit.REFUSED}


class Named(NamedTuple):
    """Which calls a command is about: those with these ids, or those of a session and a tool that wait, or that waited
    when the list `shown` was read."""

    ids: Sequence[str]
    session: str | None
    tool: str | None
    shown: str | None = None

    @property
    def one(self) -> str | None:
        """The id of the only approval that is named; None if it is a batch. Raises InvalidInput if nothing is named, or
        in two ways."""
        if (self.session is None) is not bool(self.ids):
            raise InvalidInput("say what is decided: the ids of approvals, or --session with the id of a session")
        if self.session is None and (self.tool, self.shown) != (None, None):
            raise InvalidInput("--tool and --shown go with --session")
        if len(self.ids) == 1:
            return self.ids[0]
        if strange := [each for each in self.ids if not _AN_ID.fullmatch(each)]:
            raise InvalidInput(f"{strange[0]!r} is no approval's id: put a text of several words in quotes")
        return None

    @property
    def wanted(self) -> tuple[str, str]:
        """The kind and the name of what the command is about, for `Place.need`."""
        return ("approval", self.ids[0]) if self.session is None else ("session", self.session)

    @property
    def option(self) -> str:
        return f" --session {self.session}" + ("" if self.tool is None else f" --tool {self.tool}")


def list_for(named: Named, place: AnyPlace, *, as_json: bool) -> int:
    """Print what waits in a session, and how to approve exactly that."""
    from supervisor.cli.asked import print_approvals

    calls = place.read(partial(_asked_in, named), wanted=named.wanted)
    waiting, name = [each for each in calls if each.status == "pending"], name_of_list(calls)
    if as_json:
        answers.print_json({"shown": name, "approvals": [approval_document(each) for each in waiting]})
    elif waiting:
        print_approvals(waiting)
        print(f"\nTo approve exactly these {len(waiting)}:")
        print(f"supervisor approve{named.option} --shown {name}{place.option}")
    else:
        say_on_stderr(f"No call waits for a person in session {named.session}.")
    return Exit.DONE


def decide_all(named: Named, decision: Callable[[str], Decision], place: PersonPlace, *, as_json: bool) -> int:
    """Decide several calls, and print what became of each. `decision`: makes one from a person's name."""

    async def decide(supervisor: Supervisor, who: str) -> tuple[dict[str, Approval], list[DecisionResult]]:
        found, made = await _find_calls(supervisor, named, place), decision(who)
        calls = {name: each for name, each in found.items() if each is not None}
        pairs = [(name, with_meant_pattern(calls[name], made) if name in calls else made) for name in found]
        shown = {each.id: each.digest for each in calls.values()}
        return calls, await supervisor.decide_all(pairs, channel="command line", shown=shown)

    calls, results = place.give("deciding", decide, wanted=named.wanted)
    if as_json:
        batch = results[0].batch if results else None
        answers.print_json({"batch": batch, "results": [decision_document(each) for each in results]})
    else:
        _print_results(calls, results)
    if not results:
        say_on_stderr(f"No call waits for a person in session {named.session}.")
    kept = [calls[each.approval] for each in results if each.is_accepted and not each.running]
    for root, agent in {each.root_session: each.path[0] for each in kept}.items():
        answers.say_kept(agent, root, place)
    failed = {_EXITS.get(each.kind, Exit.CONFLICT) for each in results if not each.is_accepted}
    return Exit.DONE if not failed else failed.pop() if len(failed) == 1 else Exit.CONFLICT


def _print_results(calls: dict[str, Approval], results: Sequence[DecisionResult]) -> None:
    now = datetime.now().astimezone()
    for each in results:
        what = f": {summary(calls[each.approval])}" if each.approval in calls else ""
        print(f"{told(each, now)}{what} [{each.approval}]")


async def _find_calls(supervisor: Supervisor, named: Named, place: AnyPlace) -> dict[str, Approval | None]:
    """Return what is decided, as it is before, by id; None for an id that no approval has. Raises InvalidInput if a
    short id has several meanings, or if what was shown cannot be found again."""
    if named.session is None:
        from supervisor.cli.asked import find_approval

        found: dict[str, Approval | None] = {}
        for given in named.ids:
            try:
                each = await find_approval(supervisor, given, place)
                found[each.id] = each
            except NotFound:
                found[given] = None  # its result says so
        return found
    calls = await _asked_in(named, supervisor)
    listed = None
    if named.shown is None:
        listed = [each for each in calls if each.status == "pending"]
    elif (listed := find_listed(calls, named.shown)) is None:
        raise InvalidInput(
            f"{named.shown} does not name what waited in session {named.session}, so nothing was decided; list it "
            f"again: supervisor approve{named.option}{place.option}"
        )
    return {each.id: each for each in listed}


async def _asked_in(named: Named, supervisor: Supervisor) -> list[Approval]:
    """Return all calls that were asked in a session, oldest first."""
    everything = await supervisor.find_approvals(pending=False, session=named.session, limit=None)
    return [each for each in everything if each.kind == "call" and named.tool in (None, each.tool)]
