"""What a person says where an agent works: a decision if it is a chat word, otherwise a message (A12).

Rules
- A bare word decides exactly one thing: what alone waits for this person here, and was shown on a card before they said
  it; a yes, what was shown whole. Otherwise nothing is decided, and the reply lists what waits, with ids. A word with
  an id is explicit: it also decides what a card showed in part.
- Here is the session and all below it. What waits for somebody else does not count, and nobody decides it here.
- Yes and no answer a question of true or false; every other question wants its own answer.
- "approve all" is on the calls that wait when it is heard and that this person was shown whole before, each decided by
  itself; the others are listed. Questions are not among them, and where nothing else waits they are listed.
- "for session" allows these tools with any arguments in the tree, by rules that are listed and can be revoked; where
  people have roles, for whoever may grant that (core/people.py). Rules that deny or ask still do.
- Where nothing waits for this person, yes and no are chat.
- Where people have roles, only operators send a message. What others say is refused where nothing waits that they may
  decide. The step that decides or sends asks that, so no word becomes a message because another person was faster. A
  refused word is in the audit trail (A4, A15).
"""

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from supervisor.core import events as e
from supervisor.core.errors import NotEntitled
from supervisor.core.questions import is_yes_or_no
from supervisor.core.rules import Rule, make_rule
from supervisor.core.values import Answer, Approval, Approve, Decision, DecisionResult, Deny
from supervisor.core.words import ChatResult, Word, read_word

if TYPE_CHECKING:
    from supervisor.runtime.local import LocalSupervisor


class Seen(NamedTuple):
    """What a person had been shown when they said something; see Supervisor.chat."""

    before: datetime
    channel: str | None = None
    approvals: Collection[str] | None = None

    def has(self, supervisor: "LocalSupervisor", approval: Approval, *, whole: bool) -> bool:
        """Whether they had seen an approval; `whole`: all of it."""
        if self.approvals is not None and (approval.id not in self.approvals or self.channel is None):
            return approval.id in self.approvals
        rows = supervisor.store.journal(approval.session)
        posted = (
            row.event for row in rows if isinstance(row.event, e.CardPosted) and row.event.approval == approval.id
        )
        return any(
            event.at <= self.before and self.channel in (None, event.channel) and (event.is_whole or not whole)
            for event in posted
        )


async def chat(supervisor: "LocalSupervisor", session: str, text: str, by: str, seen: Seen) -> ChatResult:
    """Decide, list, or send; see Supervisor.chat."""
    word, where, people = read_word(text), seen.channel or "message", supervisor.people
    if word is None:
        return ChatResult(kind="sent", sent=await supervisor.send(session, text, by=by))
    root = supervisor.reader.get_row(session).root
    here = supervisor.reader.find_approvals(session=session)
    if people is not None and (why := people.why_not_say(by, text, here)) is not None:
        for each in here:
            if word.approval in (None, each.id):
                reason = people.why_not_decide(by, each) or why
                await supervisor.note_refusal(each.id, by=by, reason=reason, channel=where)
        raise NotEntitled(why)
    waiting = tuple(each for each in here if people is None or people.why_not_decide(by, each) is None)
    if word.all:
        may_allow = people is None or people.why_not_command(by, "make rules") is None
        return await _approve_all(supervisor, root, by, waiting, seen, may_allow if word.for_session else None, where)
    if word.approval is not None:
        return await _decide_one(supervisor, word, by, session, waiting, where)
    if not waiting:
        return ChatResult(kind="sent", sent=await supervisor.send(session, text, by=by))
    if len(waiting) > 1 or not seen.has(supervisor, waiting[0], whole=word.is_yes):
        return ChatResult(kind="listed", approvals=waiting)
    return await _decide(supervisor, word, by, waiting[0], waiting, where)


async def _decide_one(
    supervisor: "LocalSupervisor", word: Word, by: str, session: str, waiting: tuple[Approval, ...], where: str
) -> ChatResult:
    """Decide what is named, if it was asked here; who may not, is told by `decide`, and it is in the audit trail."""
    assert word.approval is not None
    found = supervisor.store.get_approval(word.approval)
    if found is None or not supervisor.reader.is_below(found.session, session):
        return ChatResult(
            kind="listed", approvals=waiting, results=(DecisionResult(kind="unknown", approval=word.approval),)
        )
    return await _decide(supervisor, word, by, found, waiting, where)


async def _decide(
    supervisor: "LocalSupervisor", word: Word, by: str, found: Approval, waiting: tuple[Approval, ...], where: str
) -> ChatResult:
    decision = _decision(word, found, by)
    if decision is None:
        return ChatResult(kind="listed", approvals=waiting or (found,))
    result = await supervisor.decide(found.id, decision, channel=where)
    return ChatResult(kind="decided", approvals=(found,), results=(result,))


def _decision(word: Word, found: Approval, by: str) -> Decision | None:
    """Return what a word means for this one; None if it is no answer to it."""
    if found.kind == "call":
        return Approve(by=by) if word.is_yes else Deny(by=by)
    if is_yes_or_no(found.schema) and word.said in ("yes", "no"):
        return Answer(value=word.is_yes, by=by)
    return None


async def _approve_all(
    supervisor: "LocalSupervisor",
    root: str,
    by: str,
    waiting: tuple[Approval, ...],
    seen: Seen,
    may_allow: bool | None,
    where: str,
) -> ChatResult:
    """Approve every call that waits and was shown; `may_allow`: and allow their tools, if this person may; None: nobody
    said so."""
    calls = tuple(each for each in waiting if each.kind == "call" and seen.has(supervisor, each, whole=True))
    if waiting and not calls:
        return ChatResult(kind="listed", approvals=waiting)
    results = [await supervisor.decide(each.id, Approve(by=by), channel=where) for each in calls]
    tools = dict.fromkeys(each.tool for each, result in zip(calls, results, strict=True) if result.is_accepted)
    rules: list[Rule] = []
    if may_allow:
        rules = [await supervisor.add_rule(make_rule("allow", tool, None, "decision", root), by=by) for tool in tools]
    return ChatResult(
        kind="decided",
        approvals=calls,
        results=tuple(results),
        rules=tuple(rules),
        not_shown=tuple(each for each in waiting if each.kind == "call" and each not in calls),
        may_not_allow=may_allow is False and bool(tools),
    )
