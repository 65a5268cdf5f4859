"""Several calls at once on a page: what a person has ticked in the inbox, shown whole, then decided in one batch (A16).

    tick rows in the inbox, or press "30 equal" -> POST /decisions shows each different call once, whole
                                                -> POST /decisions with a decision: the result of each

Rules
- A row is cut, so ticking it decides nothing. The buttons stand below all of what would run; nothing of it is folded.
- Equal are calls with the same arguments, folder and agent; their sessions may differ. Calls with masked values are
  never equal: their masks hide whether they are.
- Equal calls may be for different people, and their agents may say different words. The card says that of the first
  call, and below it all that only others have. Calls with different evidence are not equal.
- The form has the digest of each call as it was shown. One that differs then, and what is not for this person or not
  for a batch, is named and stays.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from supervisor.channels.web.pages.drawn_facts import Fact, drawn_fact
from supervisor.channels.web.pages.inbox import CardView, card_view
from supervisor.channels.web.pages.visits import Visit
from supervisor.channels.wording import cards
from supervisor.core.approvals import facts
from supervisor.core.approvals.drawing import draw_prose
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.values import Approval, Approve, Decision, Deny

TICK: Final = "one."
"""What the name of a tick box begins with; the id of its approval follows. Its value is a digest once it was shown."""
EQUAL: Final = "equal"
"""The button that means all calls that are equal to one."""
MOST_AT_ONCE: Final = 500
_KIND = tuple[str, str, str, str, tuple[str, ...]]
_SAID: Final[dict[str, Callable[[Approval], tuple[str, ...]]]] = {
    "for": lambda each: (each.requester,),
    "the agent says": lambda each: (each.because,),
    "why": lambda each: (each.why,),
    "note": lambda each: (each.note,),
    "input": lambda each: each.inputs,
}
"""What a card says of a call besides what runs: equal calls may differ in it."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Equal calls. `view`: the card of the first; `others`: what only others have."""

    view: CardView
    calls: tuple[Approval, ...]
    others: tuple[Fact, ...] = ()


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is not decided here. `why`: what to do instead."""

    id: str
    what: str
    why: str


def kind_of(approval: Approval) -> _KIND | None:
    """Return what equal calls have in common; None for what is never equal to another."""
    if approval.kind != "call" or approval.secret or approval.masked:
        return None
    evidence = tuple(f"{each.digest} {each.text} {each.failure}" for each in approval.evidence)
    return approval.agent, approval.tool, approval.digest, approval.cwd, evidence


def count_equal(approvals: Iterable[Approval]) -> dict[str, int]:
    """Return, by the id of the first of several equal calls, how many they are."""
    found: dict[_KIND, list[str]] = {}
    for each in approvals:
        if (kind := kind_of(each)) is not None:
            found.setdefault(kind, []).append(each.id)
    return {ids[0]: len(ids) for ids in found.values() if len(ids) > 1}


async def decide_together(visit: Visit) -> Response:
    chosen = await _chosen(visit)
    made = _decision(visit)
    if made is not None:
        shown = {each.id: visit.form.get(f"{TICK}{each.id}", "") for each in chosen}
        results = await visit.supervisor.decide_all([(each.id, made) for each in chosen], channel="web", shown=shown)
        told = [
            Left(id=each.id, what=cards.summary(each), why=cards.told(result, visit.now))
            for each, result in zip(chosen, results, strict=True)
        ]
        kept = [each for each, result in zip(chosen, results, strict=True) if result.is_accepted and not result.running]
        return await visit.page("decisions.html", "inbox", {"told": told, "kept": len(kept)})
    left = [Left(id=each.id, what=cards.summary(each), why=why) for each in chosen if (why := _why_not(visit, each))]
    rest = [each for each in chosen if each.id not in {one.id for one in left}]
    groups = _groups(visit, rest)
    visit.show(*rest)
    return await visit.page("decisions.html", "inbox", {"groups": groups, "left": left, "number": len(rest)})


def _decision(visit: Visit) -> Decision | None:
    match visit.form.get("decision"):
        case "approve":
            return Approve(by=visit.person.name)
        case "deny":
            return Deny(by=visit.person.name, reason=visit.form.get("reason", "").strip() or None)
        case None:
            return None
        case _:
            raise InvalidInput("the form says neither approve nor deny; load the page again")


async def _chosen(visit: Visit) -> list[Approval]:
    """Return what a form names, by its ticks or by a call to which all others are equal. Raises InvalidInput."""
    if (one := visit.form.get(EQUAL)) is not None:
        first = await visit.supervisor.get_approval(one)
        waiting = await visit.supervisor.find_approvals(limit=None)
        kind = kind_of(first)
        return [each for each in waiting if kind is not None and kind_of(each) == kind][:MOST_AT_ONCE] or [first]
    ids = [name.removeprefix(TICK) for name in visit.form if name.startswith(TICK)]
    found = list[Approval]()
    for each in ids[:MOST_AT_ONCE]:
        try:
            found.append(await visit.supervisor.get_approval(each))
        except NotFound:
            continue  # its tree was removed
    if not found:
        raise InvalidInput("nothing is ticked: go back, and tick the calls that you want to decide together")
    return found


def _why_not(visit: Visit, approval: Approval) -> str | None:
    """Return why a call is not decided here; None if it is."""
    if approval.status != "pending":
        return cards.decided(approval, visit.now)
    if approval.kind == "question":
        return "it is a question: answer it by itself"
    if (refusal := visit.refusal(approval)) is not None:
        return refusal
    people = visit.site.guard.people
    number = people.find_quorum(approval, Approve(by=visit.person.name))
    return None if number == 1 else f"it needs {number} people: decide it by itself"


def _groups(visit: Visit, calls: Sequence[Approval]) -> list[Group]:
    found: dict[_KIND | str, list[Approval]] = {}
    for each in calls:
        found.setdefault(kind_of(each) or each.id, []).append(each)
    return [
        Group(view=card_view(each[0], visit.now), calls=tuple(each), others=tuple(_others(each)))
        for each in found.values()
    ]


def _others(calls: Sequence[Approval]) -> Iterator[Fact]:
    """Yield what cards of these calls would say, and the card of the first does not."""
    for name, read in _SAID.items():
        said = dict.fromkeys(text for each in calls[1:] for text in read(each) if text and text not in read(calls[0]))
        if said:
            text = "\n".join(draw_prose(each).text for each in said)
            yield drawn_fact(facts.Fact(kind="because", name=f"{name}, of others", text=text), "text")
