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

from collections.abc import Collection, Sequence
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


class Hear(Protocol):
    """Looks up what a session has heard under an id; see LocalSupervisor.hear."""

    async def __call__(
        self, session: str, message: str, text: str, by: str, approvals: Collection[str] | None
    ) -> Heard | None: ...


class Meant(NamedTuple):
    """What a text decides, and what to tell then. `is_batch`: whether it decides all that waits, in one batch (A16)."""

    pairs: tuple[tuple[Approval, Decision], ...]
    told: ChatResult
    is_batch: bool = False


async def chat(
    supervisor: Supervisor, people: People | None, command: Chat, by: str, now: datetime, hear: Hear
) -> ChatResult:
    """Decide, list, or send; see Supervisor.chat. `people`: people and roles; None: every person may do everything."""
    return await _Said(supervisor, people, command, by, now, hear).answer()


class _Said:
    """A text that a person has written to a session."""

    def __init__(
        self, supervisor: Supervisor, people: People | None, command: Chat, by: str, now: datetime, hear: Hear
    ) -> None:
        self._supervisor = supervisor
        self._people = people
        self._command = command
        self._session, self._text, self._by = command.session, command.text, by
        self._before = now if command.shown_before is None else command.shown_before
        self._hear = hear
        self._where = command.channel or "message"

    async def answer(self) -> ChatResult:
        """Do what the text means, and return what to tell."""
        known = await self._heard()
        meant = await self._meaning() if known is None else None
        if meant is not None:
            known = await self._heard([approval.id for approval, _ in meant.pairs])  # it may have come twice at once
        if known is not None and known.approvals is not None:
            meant = await self._meant_before(known.approvals)
        if meant is None:
            sent = await self._supervisor.send(self._session, self._text, by=self._by, message=self._command.message)
            return ChatResult(kind="sent", sent=sent)
        results = await self._decide(meant)
        made = {rule for result in results if result.is_accepted for rule in (result.rule, *result.rules) if rule}
        rules = await self._supervisor.find_rules() if made and meant.is_batch else ()
        told = tuple(rule for rule in rules if rule.id in made)
        return replace(meant.told, results=(*meant.told.results, *results), rules=told)

    async def _decide(self, meant: Meant) -> list[DecisionResult]:
        supervisor, where = self._supervisor, self._where
        if not meant.is_batch:
            return [await supervisor.decide(each.id, decision, channel=where) for each, decision in meant.pairs]
        decisions = [(each.id, decision) for each, decision in meant.pairs]
        return await supervisor.decide_all(
            decisions, channel=where, shown={each.id: each.digest for each, _ in meant.pairs}
        )

    async def _heard(self, approvals: Collection[str] | None = None) -> Heard | None:
        """Return what was heard under the sender's id of the text before. If nothing, journal that it decides these
        approvals; None: only look. Raises SessionConflict if another text has its id."""
        if (message := self._command.message) is None:  # it comes once
            return None
        found = await self._hear(self._session, message, self._text, self._by, approvals)
        if found is not None:
            found.check_same(message, self._text, self._by, is_word=found.approvals is not None)
        return found

    async def _meaning(self) -> Meant | None:
        """Return what the text decides, or that it lists what waits; None for a message."""
        if (word := await self._word()) is None:
            return await self._unworded()
        here = tuple(await self._here())
        if self._people is not None and (why := self._people.why_not_say(self._by, self._text, here)) is not None:
            for each in here:
                if word.approval in (None, each.id):
                    reason = self._people.why_not_decide(self._by, each) or why
                    await self._supervisor.note_refusal(each.id, by=self._by, reason=reason, channel=self._where)
            raise NotEntitled(why)
        waiting = self._own(here)
        if word.all:
            return await self._all(word, waiting)
        if word.approval is not None:
            return await self._named(word.approval, word, waiting)
        if not waiting:
            return None
        is_weighty = word.is_yes or word.scope != "once"
        if len(waiting) > 1 or not await self._has_seen(waiting[0], whole=is_weighty):
            return _listed(waiting)
        return await self._answering() or _one(word, self._by, waiting[0], waiting)

    async def _here(self) -> Sequence[Approval]:
        return await self._supervisor.find_approvals(session=self._session, limit=None)

    async def _word(self) -> Word | None:
        """Return the chat word of the text, with the whole id of what it names by a short one; None for another
        text."""
        word, short = read_word(self._text), read_short(self._text)
        if word is not None or short is None:
            return word
        meant = with_short_id(short[1], [each.id for each in await self._here()])
        return replace(short[0], approval=meant[0] if len(meant) == 1 else short[1]) if meant else None

    async def _unworded(self) -> Meant | None:
        """Return what a text decides that is no chat word: it may answer a question. A near word lists what waits."""
        answered = await self._answering()
        if answered is None and is_near_word(self._text) and (near := await self._waiting()):
            return _listed(near)
        return answered

    async def _meant_before(self, approvals: tuple[str, ...]) -> Meant:
        """Return what the text decides, which came before."""
        short = read_short(self._text)
        word, pairs = read_word(self._text) or (short and short[0]), list[tuple[Approval, Decision]]()
        for each in approvals:
            try:
                found = await self._supervisor.get_approval(each)
            except NotFound:  # its tree was removed
                continue
            if word is not None and word.all:
                pairs.append((found, self._approve(found, _scope_of(word))))
            else:
                decision = _decision(word, found, self._by) if word is not None else None
                pairs.append((found, decision or Answer(value=read_answer(found, self._text), by=self._by)))
        if not pairs:
            return _listed(await self._waiting())
        decided = tuple(found for found, _ in pairs)
        is_batch = word is not None and word.all
        return Meant(tuple(pairs), ChatResult(kind="decided", approvals=decided), is_batch=is_batch)

    def _own(self, here: Sequence[Approval]) -> tuple[Approval, ...]:
        """Return those approvals that the person may decide."""
        return tuple(
            each for each in here if self._people is None or self._people.why_not_decide(self._by, each) is None
        )

    async def _waiting(self) -> tuple[Approval, ...]:
        """Return the approvals that wait here for the person."""
        return self._own(await self._here())

    async def _has_seen(self, approval: Approval, *, whole: bool) -> bool:
        """Whether the person had been shown an approval; `whole`: all of it. See Supervisor.chat."""
        channel, shown = self._command.channel, self._command.shown
        if shown is not None and (approval.id not in shown or channel is None):
            return approval.id in shown
        if channel is not None and channel not in approval.shown:
            return False
        is_shown = partial(ApprovalState.is_shown, channel=channel, whole=whole)
        return is_shown(await read_state(self._supervisor, approval, until=is_shown, before=self._before))

    async def _answering(self) -> Meant | None:
        """Answer the only question that waits for the person; None if the text is not meant for one, or does not fit
        it, or is not from a channel."""
        if self._command.channel is None:
            return None
        waiting = await self._waiting()
        if len(waiting) != 1 or waiting[0].kind != "question" or not await self._has_seen(waiting[0], whole=True):
            return None
        try:
            value = read_answer(waiting[0], self._text)
            check_answer(waiting[0], value)
        except InvalidInput:
            return None
        return Meant(((waiting[0], Answer(value=value, by=self._by)),), ChatResult(kind="decided", approvals=waiting))

    async def _named(self, approval: str, word: Word, waiting: tuple[Approval, ...]) -> Meant:
        """Decide the named approval, if it was asked here. `decide` refuses a person who may not, and journals that."""
        try:
            found = await self._supervisor.get_approval(approval)
            if found.session != self._session:
                tree = await self._supervisor.find_sessions(root=found.root_session, limit=None)
                if found.session not in ids_from(self._session, tree):
                    raise NotFound(f"{found.id} was not asked in session {self._session}")
        except NotFound:
            return _listed(waiting, (DecisionResult(kind="unknown", approval=approval),))
        return _one(word, self._by, found, waiting)

    async def _all(self, word: Word, waiting: tuple[Approval, ...]) -> Meant:
        """Approve every waiting call that was shown whole, in a scope if its card offers that to this person."""
        scope = _scope_of(word)
        asked = [each for each in waiting if each.kind == "call"]
        calls = tuple([each for each in asked if await self._has_seen(each, whole=True)])
        if waiting and not calls:
            return _listed(waiting)
        pairs = tuple((each, self._approve(each, scope)) for each in calls)
        granted = [each for each, decision in pairs if decision.scope == scope]
        offered = [each for each in calls if _offers(each, scope)]
        could_cover_more = scope == "once" and any(self._approve(each, "session").scope == "session" for each in calls)
        told = ChatResult(
            kind="decided",
            approvals=calls,
            not_shown=tuple(each for each in asked if each not in calls),
            once=tuple(each for each in calls if each not in granted),
            may_not_allow=len(granted) < len(offered),
            hint=COVERS_LATER if could_cover_more else "",
        )
        return Meant(pairs, told, is_batch=True)

    def _approve(self, each: Approval, scope: Scope) -> Approve:
        """Return the approval of a call, in a scope if its card offers that, and to this person."""
        wide = Approve(by=self._by, scope=scope)
        may = self._people is None or self._people.why_not_decide(self._by, each, wide) is None
        return wide if may and _offers(each, scope) else Approve(by=self._by)


def _scope_of(word: Word) -> Scope:
    return "session" if word.for_session else "once"


def _listed(waiting: tuple[Approval, ...], results: tuple[DecisionResult, ...] = ()) -> Meant:
    return Meant((), ChatResult(kind="listed", approvals=waiting, results=results))


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


def _offers(approval: Approval, scope: Scope) -> bool:
    return any(option.scope == scope for option in approval.options)
