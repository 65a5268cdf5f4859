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
- A text with an id of its sender is heard once: what it decides is on disk before it decides. The same text under that
  id again decides the same approvals, which are decided already, and no other: not even if it decided none before.
- If people have roles, only operators may send messages. A text of another person is refused if nothing waits that they
  may decide. What waits is read once, and the chat word is for that: it does not become a message because another
  person was faster. A refused word is in the audit trail (A4, A15).
"""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from supervisor.core.approvals.chat_words import COVERS_LATER, ChatResult, Word, read_short, read_word
from supervisor.core.approvals.near_words import is_near_word
from supervisor.core.approvals.people import People
from supervisor.core.approvals.questions import check_answer, is_yes_or_no, read_answer
from supervisor.core.approvals.state import ApprovalState
from supervisor.core.calls.rules import deniable
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound
from supervisor.core.ids import with_short_id
from supervisor.core.rows import ids_from
from supervisor.core.sessions.heard import Heard
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


class Hear(Protocol):
    """Looks up what a session has heard under an id; see LocalSupervisor.hear."""

    async def __call__(
        self, session: str, message: str, text: str, by: str, approvals: Collection[str] | None
    ) -> Heard | None: ...


class Said(NamedTuple):
    """A text of a person to a session. `message`: the sender's id of it; None: it comes once."""

    session: str
    text: str
    by: str
    message: str | None
    hear: Hear

    async def heard(self, approvals: Collection[str] | None = None) -> Heard | None:
        """Return what was heard under its id before. If nothing, journal that it decides these approvals; None: only
        look. Raises SessionConflict if another text has its id."""
        if self.message is None:
            return None
        found = await self.hear(self.session, self.message, self.text, self.by, approvals)
        if found is not None:
            found.check_same(self.message, self.text, self.by, is_word=found.approvals is not None)
        return found


class Meant(NamedTuple):
    """What a text decides, and what to tell then. `is_batch`: whether it decides all that waits, in one batch (A16)."""

    pairs: tuple[tuple[Approval, Decision], ...]
    told: ChatResult
    is_batch: bool = False


async def chat(
    supervisor: Supervisor, people: People | None, command: Chat, by: str, now: datetime, hear: Hear
) -> ChatResult:
    """Decide, list, or send; see Supervisor.chat. `people`: people and roles; None: every person may do everything."""
    said = Said(command.session, command.text, by, command.message, hear)
    seen = Seen(now if command.shown_before is None else command.shown_before, command.channel, command.shown)
    known = await said.heard()
    meant = await _meaning(supervisor, people, said, seen) if known is None else None
    if meant is not None:
        known = await said.heard([approval.id for approval, _ in meant.pairs])  # it may have come twice at once
    if known is not None and known.approvals is not None:
        meant = await _meant_before(supervisor, people, said, known.approvals)
    if meant is None:
        sent = await supervisor.send(said.session, said.text, by=said.by, message=said.message)
        return ChatResult(kind="sent", sent=sent)
    where = seen.channel or "message"
    results: list[DecisionResult]
    if meant.is_batch:
        decisions = [(each.id, decision) for each, decision in meant.pairs]
        digests = {each.id: each.digest for each, _ in meant.pairs}
        results = await supervisor.decide_all(decisions, channel=where, shown=digests)
    else:
        results = [await supervisor.decide(each.id, decision, channel=where) for each, decision in meant.pairs]
    made = {rule for result in results if result.is_accepted for rule in (result.rule, *result.rules) if rule}
    rules = [rule for rule in await supervisor.find_rules() if rule.id in made] if made and meant.is_batch else []
    return replace(meant.told, results=(*meant.told.results, *results), rules=tuple(rules))


async def _meaning(supervisor: Supervisor, people: People | None, said: Said, seen: Seen) -> Meant | None:
    """Return what a text decides, or that it lists what waits; None for a message."""
    word, session, by = await _word(supervisor, said), said.session, said.by
    if word is None:
        return await _unworded(supervisor, people, said, seen)
    here = await supervisor.find_approvals(session=session, limit=None)
    if people is not None and (why := people.why_not_say(by, said.text, here)) is not None:
        for each in here:
            if word.approval in (None, each.id):
                reason = people.why_not_decide(by, each) or why
                await supervisor.note_refusal(each.id, by=by, reason=reason, channel=seen.channel or "message")
        raise NotEntitled(why)
    waiting = tuple(each for each in here if people is None or people.why_not_decide(by, each) is None)
    if word.all:
        return await _all(supervisor, people, said, waiting, seen)
    if word.approval is not None:
        return await _named(supervisor, word, said, waiting)
    if not waiting:
        return None
    is_weighty = word.is_yes or word.scope != "once"
    if len(waiting) > 1 or not await seen.has(supervisor, waiting[0], whole=is_weighty):
        return _listed(waiting)
    answered = await _answer(supervisor, people, said, seen) if seen.channel is not None else None
    return answered or _one(word, by, waiting[0], waiting)


async def _word(supervisor: Supervisor, said: Said) -> Word | None:
    """Return the chat word of a text, with the whole id of what it names by a short one; None for another text."""
    word, short = read_word(said.text), read_short(said.text)
    if word is not None or short is None:
        return word
    here = await supervisor.find_approvals(session=said.session, limit=None)
    meant = with_short_id(short[1], [each.id for each in here])
    return replace(short[0], approval=meant[0] if len(meant) == 1 else short[1]) if meant else None


async def _unworded(supervisor: Supervisor, people: People | None, said: Said, seen: Seen) -> Meant | None:
    """Return what a text decides that is no chat word: it may answer a question. A near word lists what waits."""
    answered = await _answer(supervisor, people, said, seen) if seen.channel is not None else None
    if answered is None and is_near_word(said.text) and (near := await _waiting(supervisor, people, said)):
        return _listed(near)
    return answered


async def _meant_before(supervisor: Supervisor, people: People | None, said: Said, approvals: tuple[str, ...]) -> Meant:
    """Return what a text decides that came before."""
    short = read_short(said.text)
    word, pairs = read_word(said.text) or (short and short[0]), list[tuple[Approval, Decision]]()
    for each in approvals:
        try:
            found = await supervisor.get_approval(each)
        except NotFound:  # its tree was removed
            continue
        if word is not None and word.all:
            pairs.append((found, _approve(people, said.by, found, _scope_of(word))))
        else:
            decision = _decision(word, found, said.by) if word is not None else None
            pairs.append((found, decision or Answer(value=read_answer(found, said.text), by=said.by)))
    if not pairs:
        return _listed(await _waiting(supervisor, people, said))
    decided = tuple(found for found, _ in pairs)
    return Meant(tuple(pairs), ChatResult(kind="decided", approvals=decided), is_batch=word is not None and word.all)


def _listed(waiting: tuple[Approval, ...], results: tuple[DecisionResult, ...] = ()) -> Meant:
    return Meant((), ChatResult(kind="listed", approvals=waiting, results=results))


async def _waiting(supervisor: Supervisor, people: People | None, said: Said) -> tuple[Approval, ...]:
    """Return the approvals that wait here for a person."""
    here = await supervisor.find_approvals(session=said.session, limit=None)
    return tuple(each for each in here if people is None or people.why_not_decide(said.by, each) is None)


async def _answer(supervisor: Supervisor, people: People | None, said: Said, seen: Seen) -> Meant | None:
    """Answer the only question that waits for a person; None if a text is not meant for one, or does not fit it."""
    here = await supervisor.find_approvals(session=said.session, limit=None)
    waiting = [each for each in here if people is None or people.why_not_decide(said.by, each) is None]
    if len(waiting) != 1 or waiting[0].kind != "question":
        return None
    if not await seen.has(supervisor, waiting[0], whole=True):
        return None
    try:
        value = read_answer(waiting[0], said.text)
        check_answer(waiting[0], value)
    except InvalidInput:
        return None
    answer = Answer(value=value, by=said.by)
    return Meant(((waiting[0], answer),), ChatResult(kind="decided", approvals=(waiting[0],)))


async def _named(supervisor: Supervisor, word: Word, said: Said, waiting: tuple[Approval, ...]) -> Meant:
    """Decide the named approval, if it was asked here. `decide` refuses a person who may not, and journals that."""
    assert word.approval is not None
    try:
        found = await supervisor.get_approval(word.approval)
        if found.session != said.session:
            tree = await supervisor.find_sessions(root=found.root_session, limit=None)
            if found.session not in ids_from(said.session, tree):
                raise NotFound(f"{found.id} was not asked in session {said.session}")
    except NotFound:
        return _listed(waiting, (DecisionResult(kind="unknown", approval=word.approval),))
    return _one(word, said.by, found, waiting)


def _one(word: Word, by: str, found: Approval, waiting: tuple[Approval, ...]) -> Meant:
    decision = _decision(word, found, by)
    if decision is None:
        return _listed(waiting or (found,))
    is_narrower = isinstance(decision, Approve | Deny) and decision.scope != word.scope
    told = ChatResult(kind="decided", approvals=(found,), once=(found,) if is_narrower else ())
    return Meant(((found, decision),), told)


def _decision(word: Word, found: Approval, by: str) -> Decision | None:
    """Return the decision that a word means for an approval; None if the word cannot answer it."""
    if found.kind == "call":
        if word.is_yes:
            return _allowing(word, found, by)
        is_offered = any(option.scope == word.scope for option in deniable(found))
        return Deny(by=by, scope=word.scope if is_offered else "once")
    if is_yes_or_no(found.schema) and word.said in ("yes", "no") and word.scope == "once":
        return Answer(value=word.is_yes, by=by)
    return None


def _allowing(word: Word, found: Approval, by: str) -> Approve:
    """Return an approval with the end that a word gives it; once, if its card offers no such allowance."""
    kinds = ("uses" if word.uses is not None else "minutes") if word.scope != "once" else ""
    first = next((each for each in found.allowances if kinds and getattr(each, kinds) is not None), None)
    if first is None:
        return Approve(by=by)
    return Approve(by=by, scope="session", pattern=first.pattern, uses=word.uses, minutes=word.minutes)


def _scope_of(word: Word) -> Scope:
    return "session" if word.for_session else "once"


def _approve(people: People | None, by: str, each: Approval, scope: Scope) -> Approve:
    """Return the approval of a call, in a scope if its card offers that, and to this person."""
    wide = Approve(by=by, scope=scope)
    is_offered = any(option.scope == scope for option in each.options)
    return wide if is_offered and _may(people, wide, each) else Approve(by=by)


def _may(people: People | None, decision: Approve, each: Approval) -> bool:
    return people is None or people.why_not_decide(decision.by, each, decision) is None


async def _all(
    supervisor: Supervisor, people: People | None, said: Said, waiting: tuple[Approval, ...], seen: Seen
) -> Meant:
    """Approve every waiting call that was shown whole, in a scope if its card offers that to this person."""
    word, by = read_word(said.text), said.by
    assert word is not None, "this text is a word"
    scope = _scope_of(word)
    asked = [each for each in waiting if each.kind == "call"]
    calls = tuple([each for each in asked if await seen.has(supervisor, each, whole=True)])
    if waiting and not calls:
        return _listed(waiting)
    pairs = tuple((each, _approve(people, by, each, scope)) for each in calls)
    granted = [each for each, decision in pairs if decision.scope == scope]
    offered = [each for each in calls if any(option.scope == scope for option in each.options)]
    session = Approve(by=by, scope="session")
    could_cover_more = scope == "once" and any(
        any(option.scope == "session" for option in each.options) and _may(people, session, each) for each in calls
    )
    told = ChatResult(
        kind="decided",
        approvals=calls,
        not_shown=tuple(each for each in asked if each not in calls),
        once=tuple(each for each in calls if each not in granted),
        may_not_allow=len(granted) < len(offered),
        hint=COVERS_LATER if could_cover_more else "",
    )
    return Meant(pairs, told, is_batch=True)
