"""Turns a press on a chat platform into a decision, and into the text that answers the person.

Rules
- The platform vouches for the identity of the person who presses. A stranger is refused here. What a configured person
  may do is checked by the command alone, in the step that does it (A4). This module only hides forms that would be
  filled in for nothing.
- A refused press is written into the audit trail. The card does not change, so that an entitled person can still
  decide.
- The person who presses is always told the result: the decision counts, it was made before, the person may not make
  it, or the approval is gone or unknown.
- The code of a button says what is decided. A text in a form only gives it arguments, a reason or an answer.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from supervisor.channels.chat.hushing import HOW, hush, read_hush
from supervisor.channels.chat.presses import APPROVE, DENY, EXPLAIN, REPLY, decision_of, says_yes
from supervisor.channels.wording.cards import page_of, path_text, summary, told
from supervisor.channels.wording.lengths import fit, fit_lines
from supervisor.core.approvals.chat_words import read_word
from supervisor.core.approvals.facts import ago, is_whole
from supervisor.core.approvals.people import People, Person
from supervisor.core.approvals.questions import is_yes_or_no
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound, SupervisorError
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval, Approve
from supervisor.seam.channel import Channel
from supervisor.seam.commands import LAWS, Start
from supervisor.seam.shown import read_state, until_shown
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

RECORDED_SECONDS: Final = 1.0
MOST_SEEN: Final = 100
"""The most edits that wait for their confirmation; older ones are shown once more."""


class Pressed(msgspec.Struct, frozen=True):
    """The approval that a configured person pressed or named, and the person's name."""

    approval: Approval
    name: str


class Result(msgspec.Struct, frozen=True):
    """The result of a press, as text for the person who pressed."""

    text: str
    is_decision: bool = True
    """Whether the press is a decision. False: the text in the form does not fit, and the person can correct it."""
    is_stale: bool = False
    """Whether the card still had its buttons although the approval had ended."""


class Reply:
    """The answer to a platform's request. It is sent as the response if it is ready within the platform's time limit,
    and otherwise in a later message."""

    def __init__(self) -> None:
        self.payload: dict[str, Any] | None = None
        self.is_late = False
        self._is_dropped = False
        self._ready = anyio.Event()

    def give(self, payload: dict[str, Any] | None) -> None:
        """Set the answer: a message in the platform's form, or None if nothing is to be said."""
        self.payload = payload
        self._ready.set()

    def drop(self) -> None:
        """Say that the channel is closing and does not do what was asked."""
        self._is_dropped = not self._ready.is_set()
        self._ready.set()

    async def wait(self, seconds: float) -> bool:
        """Return whether the answer is ready within `seconds`; otherwise it is late from now on. Raises
        ClosedResourceError if it was dropped."""
        with anyio.move_on_after(seconds):
            await self._ready.wait()
        self.is_late = not self._ready.is_set()
        if self._is_dropped:
            raise anyio.ClosedResourceError
        return not self.is_late


class Answering:
    """Lets people decide from one platform. `channel`: the name under which their identities are configured."""

    most_listed: int = 200
    """The most approvals that are read for a list: more than it has room for."""

    def __init__(self, channel: str, people: People) -> None:
        self._channel = channel
        self._people = people
        self._seen: dict[tuple[str, str], Approve] = {}
        """The edits whose evidence people were told, by approval and person: the same again confirms it (A18)."""

    def find_person(self, identity: str) -> Person | str:
        """Return the person with this identity, or the text to tell a stranger."""
        person = self._people.find_by_identity(self._channel, identity)
        if person is not None:
            return person
        return (
            f"You are not among the people of this supervisor. Its operator can add you: your {self._channel} id is "
            f"{visible(identity)}."
        )

    def why_not_start(self, person: Person) -> str | None:
        """Return why a person may not start agents; None if they may."""
        return self._people.why_not_command(person.name, LAWS[Start].audit)

    async def note_stranger(self, supervisor: Supervisor, session: str, text: str, identity: str, why: str) -> None:
        """Record in the audit trail that a stranger sent a chat word to decide a session's approvals (A15).

        Raises StoreError.
        """
        if (word := read_word(text)) is None:
            return
        for each in await supervisor.find_approvals(session=session, limit=None):
            if word.approval in (None, each.id):
                by = f"{self._channel} {identity}"
                await supervisor.note_refusal(each.id, by=by, reason=why, channel=self._channel)

    async def find_pressed(self, supervisor: Supervisor, approval_id: str, identity: str) -> Pressed | str:
        """Return the person and the approval, or the text to tell a stranger. Raises StoreError."""
        try:
            approval = await supervisor.get_approval(approval_id)
        except NotFound:
            return "This supervisor's store has no such approval: it was removed, or it belongs to another store."
        person = self.find_person(identity)
        if isinstance(person, str):
            stranger = f"{self._channel} {identity}"
            await supervisor.note_refusal(
                approval.id, by=stranger, reason="not among the people of this supervisor", channel=self._channel
            )
            return f"Not counted. {person}"
        return Pressed(approval, person.name)

    async def why_hidden(self, supervisor: Supervisor, who: Pressed) -> str | None:
        """Return why no form opens for a person: `decide` would refuse each text that they could write into it. None if
        the form opens. The press is in the audit trail, as a refused decision is. Raises StoreError."""
        if (why := self._people.why_not_decide(who.name, who.approval)) is None:
            return None
        await supervisor.note_refusal(who.approval.id, by=who.name, reason=why, channel=self._channel)
        return _refused(why)

    async def why_unseen(
        self, supervisor: Supervisor, channel: Channel, approval: Approval, code: str, link: str | None, card: str = ""
    ) -> str | None:
        """Return why a press that says yes decides nothing, since the card does not show the whole request; None if it
        may decide. Such a card has no button that says yes, but an older version of the card may still have one.

        `card`: the beginning of the card's id, "" if it is not known. The journal says whether the card shows all; a
        card that is not recorded yet is drawn again. Raises StoreError."""
        if not says_yes(code):
            return None
        shown = (await read_state(supervisor, approval)).posted(channel.name)
        posted = [each.is_whole for each in shown if each.card.startswith(card)]
        if all(posted) if posted else is_whole(approval, channel.shows(approval)):
            return None
        where = page_of(approval, link) or "supervisor approvals (on the command line)"
        done = "answered" if approval.kind == "question" else "approved"
        return (
            f"Nothing was decided: this card does not show the whole request, so it cannot be {done} there. "
            f"See all of it, and decide, here: {where}"
        )

    async def until_recorded(self, supervisor: Supervisor, approval: Approval) -> None:
        """Wait up to RECORDED_SECONDS until the store holds the card that was pressed: if this process died between the
        decision and the record, no process would retire the card (R3)."""
        await until_shown(supervisor, approval, self._channel, RECORDED_SECONDS)

    async def decide(self, supervisor: Supervisor, who: Pressed, code: str, text: str | None, now: datetime) -> Result:
        """Decide as the press says; `text`: what the person wrote into its form. Raises StoreError."""
        try:
            decision = decision_of(code, who.approval, who.name, text)
            told_of = self._seen.pop((who.approval.id, who.name), None)
            if isinstance(decision, Approve) and told_of is not None and decision.arguments == told_of.arguments:
                decision = told_of
            result = await supervisor.decide(who.approval.id, decision, channel=self._channel)
            if isinstance(decision, Approve) and result.kind == "unseen" and result.seen:
                if len(self._seen) >= MOST_SEEN:
                    del self._seen[next(iter(self._seen))]
                self._seen[who.approval.id, who.name] = replace(decision, seen=result.seen)
            await checkpoint()  # what was decided begins before words are found for the person
        except InvalidInput as error:
            return Result(f"Nothing was decided: {visible(str(error), kind='words')}", is_decision=False)
        except NotEntitled as error:
            return Result(_refused(str(error)), is_decision=False)
        is_stale = result.kind not in ("accepted", "recorded", "counted", "unseen")
        return Result(f"{told(result, now)}. {summary(who.approval)} [{who.approval.id}]", is_stale=is_stale)

    async def retire_pressed(self, supervisor: Supervisor, channel: Channel, approval: str, card: str) -> None:
        """Remove the buttons of a card whose approval has ended. The store may not know of this card (R3)."""
        try:
            await channel.retire(await supervisor.get_approval(approval), card)
        except (SupervisorError, OSError) as error:
            log.warning("card.not_retired", channel=self._channel, approval=approval, error=repr(error))

    async def stop(self, supervisor: Supervisor, session: str, person: Person) -> str:
        """Cancel a session, if the person may do that, and return the text to tell them. Raises StoreError."""
        try:
            await supervisor.cancel(session, by=person.name, reason=f"stopped in {self._channel}")
        except NotFound:
            return "This supervisor's store has no such session."
        except NotEntitled as error:
            return f"Not stopped: {visible(str(error), kind='words')}."
        return "Stopped, with everything that it had started."

    async def hush(
        self, supervisor: Supervisor, text: str, person: Person, now: datetime, shown: Collection[str] | None = None
    ) -> str | None:
        """Do what a word says by which a person is on what waits, or hears nothing of it (A10), and return what to tell
        them; None for another text, and where nothing of it waits. `shown`: without ids only these are meant. Raises
        StoreError."""
        if (said := read_hush(text, now, person)) is None:
            return None
        found = () if said.approvals else await supervisor.find_approvals(limit=self.most_listed)
        meant = [each for each in found if shown is None or each.id in shown]
        waiting = [each for each in meant if self._people.why_not_decide(person.name, each) is None]
        if shown is not None and not (waiting or said.approvals):
            return None
        return await hush(supervisor, said, waiting, person, self._channel, now)

    async def say(self, supervisor: Supervisor, text: str, identity: str, now: datetime, room: int) -> str:
        """Run a slash command and return its answer: pending, approve ID, deny ID REASON, answer ID TEXT, stop SESSION,
        ack, snooze TIME.

        `room`: the most UTF-16 units that a list may have. Raises StoreError.
        """
        verb, _, rest = text.strip().partition(" ")
        approval_id, _, words = rest.strip().partition(" ")
        if verb.lower() in ("", "pending"):
            return await self._pending(supervisor, identity, now, room)
        if verb.lower() in ("stop", "cancel") and approval_id and not words:
            person = self.find_person(identity)
            return person if isinstance(person, str) else await self.stop(supervisor, approval_id, person)
        if verb.lower() in _HUSHES:
            person = self.find_person(identity)
            heard = person if isinstance(person, str) else await self.hush(supervisor, text, person, now)
            return heard or f"Write: {HOW}."
        code = _VERBS.get(verb.lower())
        if code is None or not approval_id:
            return (
                f"Write: pending, approve ID, deny ID REASON, answer ID TEXT, stop SESSION; {HOW}. pending lists the "
                "waiting approvals with their ids."
            )
        found = await self.find_pressed(supervisor, approval_id, identity)
        if isinstance(found, str):
            return found
        if code in (APPROVE, DENY) and is_yes_or_no(found.approval.schema):
            code = "yes" if code == APPROVE else "no"
        elif code == DENY and words:
            code = EXPLAIN
        if words.strip() and code not in (EXPLAIN, REPLY):
            return (
                f"Nothing was decided: write {verb.lower()} and the id, and no more. Only deny and answer take a text."
            )
        return (await self.decide(supervisor, found, code, words.strip(), now)).text

    async def _pending(self, supervisor: Supervisor, identity: str, now: datetime, room: int) -> str:
        person = self.find_person(identity)
        if isinstance(person, str):
            return person
        waiting = await supervisor.find_approvals(limit=self.most_listed)
        count = len(waiting) if len(waiting) < self.most_listed else (await supervisor.get_counts()).pending_approvals
        lines = (self._line(approval, person, now) for approval in waiting)
        return fit_lines(lines, count, room) or "Nothing waits for a person."

    def _line(self, approval: Approval, person: Person, now: datetime) -> str:
        may = "" if self._people.why_not_decide(person.name, approval) is None else ", for another person"
        what = fit(f"{path_text(approval.path)}: {summary(approval)}", LINE_UNITS, remark=False)
        return f"{approval.id}  {what}, {ago(approval.created_at, now)}{may}"


def _refused(why: str) -> str:
    return f"Not counted: {visible(why, kind='words')}. The approval still waits for a person who may decide it."


LINE_UNITS: Final = 200
"""UTF-16 units of one line of a list, without its id and age."""
_HUSHES: Final = ("ack", "on", "i'm", "snooze")
"""First words of what `hushing` reads."""
_VERBS: Final = {"approve": APPROVE, "yes": APPROVE, "deny": DENY, "reject": DENY, "no": DENY, "answer": REPLY}
