"""Chat: a text that a person writes to a session is a decision if it is a chat word, and otherwise a message (A12).

Rules
- An approval waits here if it is pending in the session or below it, and this person may decide it. Approvals of other
  people do not count, and chat words do not decide them.
- A bare word decides if exactly one approval waits here, and its card was shown before the person wrote. A yes also
  needs a card that showed it whole. Otherwise nothing is decided, and the reply lists what waits, with ids. A word with
  an id is explicit: it also decides an approval whose card showed it in part.
- A card that a route has sent to another place than this conversation was not shown here.
- Yes and no answer a question of true or false. Every other question needs its own answer.
- "approve all" approves each waiting call whose card this person had been shown whole, as one batch (A16); the reply
  lists the others. It does not answer questions; if only questions wait, the reply lists them.
- "for session" also allows each of these calls in the tree, exactly as its card offers it, by rules that are listed and
  can be revoked. A call for which that is not offered, or not to this person (core/approvals/people.py), is approved
  once, and the reply says so. A whole tool is allowed by a rule only, not by a chat word.
- "no for session" and "no always" deny the same call from now on, too. A card must have shown it whole.
- If exactly one approval waits here, it is a question, and the person had been shown all of it on the channel on which
  they write, then their text is its answer. A text that is no valid answer is a message.
- If nothing waits here, yes and no are ordinary messages.
- If people have roles, only operators may send messages. A text of another person is refused if nothing waits that they
  may decide. What waits is read once, and the chat word is for that: it does not become a message because another
  person was faster. A refused word is in the audit trail (A4, A15).
"""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import NamedTuple

from supervisor.core.approvals.chat_words import COVERS_LATER, ChatResult, Word, read_word
from supervisor.core.approvals.near_words import is_near_word
from supervisor.core.approvals.people import People
from supervisor.core.approvals.questions import check_answer, is_yes_or_no, read_answer
from supervisor.core.approvals.state import ApprovalState
from supervisor.core.calls.rules import deniable
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound
from supervisor.core.rows import ids_from
from supervisor.core.values import Answer, Approval, Approve, Decision, DecisionResult, Deny, Scope
from supervisor.seam.commands import Chat
from supervisor.seam.shown import read_state
from supervisor.seam.supervisor import Supervisor


class Seen(NamedTuple):
    """The approvals that a person had been shown when they wrote; see Supervisor.chat."""

    before: datetime
    channel: str | None = None
    approvals: Collection[str] | None = None

    async def has(self, supervisor: Supervisor, approval: Approval, *, whole: bool) -> bool:
        """Return whether the person had been shown an approval; `whole`: all of it."""
        if self.approvals is not None and (approval.id not in self.approvals or self.channel is None):
            return approval.id in self.approvals
        if self.channel is not None and self.channel not in approval.shown:
            return False
        is_shown = partial(ApprovalState.is_shown, channel=self.channel, whole=whole)
        return is_shown(await read_state(supervisor, approval, until=is_shown, before=self.before))


async def chat(supervisor: Supervisor, people: People | None, said: Chat, by: str, now: datetime) -> ChatResult:
    """Decide, list, or send; see Supervisor.chat. `people`: people and roles; None: every person may do everything."""
    session, text = said.session, said.text
    seen = Seen(now if said.shown_before is None else said.shown_before, said.channel, said.shown)
    word, where = read_word(text), seen.channel or "message"
    if word is None:
        return await _say(supervisor, people, session, text, by, seen)
    here = await supervisor.find_approvals(session=session, limit=None)
    if people is not None and (why := people.why_not_say(by, text, here)) is not None:
        for each in here:
            if word.approval in (None, each.id):
                reason = people.why_not_decide(by, each) or why
                await supervisor.note_refusal(each.id, by=by, reason=reason, channel=where)
        raise NotEntitled(why)
    waiting = tuple(each for each in here if people is None or people.why_not_decide(by, each) is None)
    if word.all:
        scope: Scope = "session" if word.for_session else "once"
        return await _approve_all(supervisor, people, by, waiting, seen, scope, where)
    if word.approval is not None:
        return await _decide_one(supervisor, word, by, session, waiting, where)
    if not waiting:
        return ChatResult(kind="sent", sent=await supervisor.send(session, text, by=by))
    is_weighty = word.is_yes or word.scope != "once"
    if len(waiting) > 1 or not await seen.has(supervisor, waiting[0], whole=is_weighty):
        return ChatResult(kind="listed", approvals=waiting)
    if (
        seen.channel is not None
        and (answered := await _answer(supervisor, people, session, text, by, seen)) is not None
    ):
        return answered
    return await _decide(supervisor, word, by, waiting[0], waiting, where)


async def _say(
    supervisor: Supervisor, people: People | None, session: str, text: str, by: str, seen: Seen
) -> ChatResult:
    """Take a text that is no chat word: an answer, a near word, or a message."""
    answered = await _answer(supervisor, people, session, text, by, seen) if seen.channel is not None else None
    if answered is None and is_near_word(text) and (near := await _waiting(supervisor, people, session, by)):
        return ChatResult(kind="listed", approvals=near)
    return answered or ChatResult(kind="sent", sent=await supervisor.send(session, text, by=by))


async def _waiting(supervisor: Supervisor, people: People | None, session: str, by: str) -> tuple[Approval, ...]:
    """Return the approvals that wait here for a person."""
    here = await supervisor.find_approvals(session=session, limit=None)
    return tuple(each for each in here if people is None or people.why_not_decide(by, each) is None)


async def _answer(
    supervisor: Supervisor, people: People | None, session: str, text: str, by: str, seen: Seen
) -> ChatResult | None:
    """Answer the only question that waits for a person; None if a text is not meant for one, or does not fit it."""
    here = await supervisor.find_approvals(session=session, limit=None)
    waiting = [each for each in here if people is None or people.why_not_decide(by, each) is None]
    if len(waiting) != 1 or waiting[0].kind != "question":
        return None
    if not await seen.has(supervisor, waiting[0], whole=True):
        return None
    try:
        value = read_answer(waiting[0], text)
        check_answer(waiting[0], value)
    except InvalidInput:
        return None
    result = await supervisor.decide(waiting[0].id, Answer(value=value, by=by), channel=seen.channel)
    return ChatResult(kind="decided", approvals=(waiting[0],), results=(result,))


async def _decide_one(
    supervisor: Supervisor, word: Word, by: str, session: str, waiting: tuple[Approval, ...], where: str
) -> ChatResult:
    """Decide the named approval, if it was asked here. `decide` refuses a person who may not, and journals that."""
    assert word.approval is not None
    try:
        found = await supervisor.get_approval(word.approval)
        if found.session != session:
            tree = await supervisor.find_sessions(root=found.root_session, limit=None)
            if found.session not in ids_from(session, tree):
                raise NotFound(f"{found.id} was not asked in session {session}")
    except NotFound:
        result = DecisionResult(kind="unknown", approval=word.approval)
        return ChatResult(kind="listed", approvals=waiting, results=(result,))
    return await _decide(supervisor, word, by, found, waiting, where)


async def _decide(
    supervisor: Supervisor, word: Word, by: str, found: Approval, waiting: tuple[Approval, ...], where: str
) -> ChatResult:
    decision = _decision(word, found, by)
    if decision is None:
        return ChatResult(kind="listed", approvals=waiting or (found,))
    result = await supervisor.decide(found.id, decision, channel=where)
    is_narrower = isinstance(decision, Deny) and decision.scope != word.scope
    return ChatResult(kind="decided", approvals=(found,), results=(result,), once=(found,) if is_narrower else ())


def _decision(word: Word, found: Approval, by: str) -> Decision | None:
    """Return the decision that a word means for an approval; None if the word cannot answer it."""
    if found.kind == "call":
        is_offered = any(option.scope == word.scope for option in deniable(found))
        return Approve(by=by) if word.is_yes else Deny(by=by, scope=word.scope if is_offered else "once")
    if is_yes_or_no(found.schema) and word.said in ("yes", "no") and word.scope == "once":
        return Answer(value=word.is_yes, by=by)
    return None


async def _approve_all(
    supervisor: Supervisor,
    people: People | None,
    by: str,
    waiting: tuple[Approval, ...],
    seen: Seen,
    scope: Scope,
    where: str,
) -> ChatResult:
    """Approve every waiting call that was shown whole, in a scope if its card offers that to this person."""
    asked = [each for each in waiting if each.kind == "call"]
    calls = tuple([each for each in asked if await seen.has(supervisor, each, whole=True)])
    if waiting and not calls:
        return ChatResult(kind="listed", approvals=waiting)
    wide, plain = Approve(by=by, scope=scope), Approve(by=by)
    offered = [each for each in calls if any(option.scope == scope for option in each.options)]
    granted = [each for each in offered if people is None or people.why_not_decide(by, each, wide) is None]
    decisions = [(each.id, wide if each in granted else plain) for each in calls]
    digests = {each.id: each.digest for each in calls}
    results = await supervisor.decide_all(decisions, channel=where, shown=digests)
    session = Approve(by=by, scope="session")
    could_cover_more = scope == "once" and any(
        any(option.scope == "session" for option in each.options)
        and (people is None or people.why_not_decide(by, each, session) is None)
        for each in calls
    )
    made = {result.rule for result in results if result.is_accepted and result.rule is not None}
    return ChatResult(
        kind="decided",
        approvals=calls,
        results=tuple(results),
        rules=tuple(rule for rule in await supervisor.find_rules() if rule.id in made) if made else (),
        not_shown=tuple(each for each in asked if each not in calls),
        once=tuple(each for each in calls if each not in granted),
        may_not_allow=len(granted) < len(offered),
        hint=COVERS_LATER if could_cover_more else "",
    )
