"""From somebody's press on a chat platform to a decision, and to what they are told.

Rules
- Who presses is whom the platform vouches for, looked up among the people who are configured; nobody else decides.
- Whoever is refused is in the audit trail, and the card stays as it is for those who may.
- Whoever presses is told what became of it: it counts, it had been decided, it is not theirs to decide, it is gone or
  unknown. What was written is never a decision, only the button's code is.
"""

from datetime import datetime
from typing import Any, Final

import anyio
import msgspec

from supervisor.abc import Channel, Supervisor
from supervisor.channels.cards import ago, page_of, path_text, summary, told
from supervisor.channels.lengths import fit, fit_lines
from supervisor.channels.presses import APPROVE, DENY, EXPLAIN, REPLY, decision_of, says_yes
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound, SupervisorError
from supervisor.core.people import People, Person
from supervisor.core.questions import is_yes_or_no
from supervisor.core.values import Approval
from supervisor.core.visible import visible
from supervisor.core.words import read_word
from supervisor.logs import FactLog

log = FactLog(__name__)

RECORDED: Final = 1.0  # seconds


class Entitled(msgspec.Struct, frozen=True):
    """Somebody who may decide, and what."""

    approval: Approval
    name: str


class Result(msgspec.Struct, frozen=True):
    """What became of a press, in words for the one who pressed."""

    text: str
    is_decision: bool = True
    """Whether it was one at all; False: what was written does not fit, and can be corrected."""
    is_stale: bool = False
    """Whether the card looked as if it were live, and was not."""


class Reply:
    """What a platform is answered: at once if it is there within the platform's bound, otherwise told afterwards."""

    def __init__(self) -> None:
        self.payload: dict[str, Any] | None = None
        self.is_late = False
        self._is_dropped = False
        self._ready = anyio.Event()

    def give(self, payload: dict[str, Any] | None) -> None:
        self.payload = payload
        self._ready.set()

    def drop(self) -> None:
        """We are leaving, and what was asked for is not done."""
        self._is_dropped = not self._ready.is_set()
        self._ready.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it came in time; from then on it is late. Raises ClosedResourceError if it was dropped."""
        with anyio.move_on_after(seconds):
            await self._ready.wait()
        self.is_late = not self._ready.is_set()
        if self._is_dropped:
            raise anyio.ClosedResourceError
        return not self.is_late


class Answering:
    """Lets people decide from one platform. `channel`: by which name their identities are configured."""

    def __init__(self, channel: str, people: People) -> None:
        self._channel = channel
        self._people = people

    def find_person(self, identity: str) -> Person | str:
        """Return whom the platform vouches for, or what to tell a stranger."""
        person = self._people.find_by_identity(self._channel, identity)
        if person is not None:
            return person
        return (
            f"You are not among the people of this supervisor. Its operator can add you: your {self._channel} id is "
            f"{visible(identity)}."
        )

    async def note_stranger(self, supervisor: Supervisor, session: str, text: str, identity: str, why: str) -> None:
        """Keep in the audit trail that a stranger said a chat word where approvals wait (A15). Raises StoreError."""
        if (word := read_word(text)) is None:
            return
        for each in await supervisor.find_approvals(session=session):
            if word.approval in (None, each.id):
                by = f"{self._channel} {identity}"
                await supervisor.note_refusal(each.id, by=by, reason=why, channel=self._channel)

    async def find_entitled(self, supervisor: Supervisor, approval_id: str, identity: str) -> Entitled | str:
        """Return who acts on which approval, or what to tell somebody who may not. Raises StoreError."""
        try:
            approval = await supervisor.get_approval(approval_id)
        except NotFound:
            return "This supervisor's store holds no such approval: it was removed, or it is another store's."
        person = self.find_person(identity)
        if isinstance(person, str):
            stranger = f"{self._channel} {identity}"
            await supervisor.note_refusal(
                approval.id, by=stranger, reason="not among the people of this supervisor", channel=self._channel
            )
            return f"Not counted. {person}"
        if (why := self._people.why_not_decide(person.name, approval)) is not None:
            await supervisor.note_refusal(approval.id, by=person.name, reason=why, channel=self._channel)
            return f"Not counted: {visible(why)}. It waits for somebody who may."
        return Entitled(approval, person.name)

    def why_unseen(self, channel: Channel, approval: Approval, code: str, link: str | None) -> str | None:
        """Return why a press decides nothing that says yes on a card which does not show all of it; None if it may.
        Such cards have no button for it, but an older one may still have it."""
        if not says_yes(code) or channel.shows_whole(approval):
            return None
        where = page_of(approval, link) or "supervisor approvals (on the command line)"
        return f"Nothing was decided: the card does not show all of it. See the whole: {where}"

    async def until_recorded(self, supervisor: Supervisor, approval: Approval) -> None:
        """Wait, shortly, until the store knows of the card that was pressed: its buttons may be faster than our record
        of it, and if we died between the decision and that, nobody would retire it (R3)."""
        with anyio.move_on_after(RECORDED):
            while approval.status == "pending" and self._channel not in approval.shown:
                await anyio.sleep(0.02)
                approval = await supervisor.get_approval(approval.id)

    async def decide(self, supervisor: Supervisor, who: Entitled, code: str, text: str | None, now: datetime) -> Result:
        """Decide what a press means; `text`: what was written into its form. Raises StoreError."""
        try:
            decision = decision_of(code, who.approval, who.name, text)
            result = await supervisor.decide(who.approval.id, decision, channel=self._channel)
        except (InvalidInput, NotEntitled) as error:
            return Result(f"Nothing was decided: {visible(str(error))}", is_decision=False)
        is_stale = result.kind not in ("accepted", "recorded")
        return Result(f"{who.approval.id}: {told(result, now)}", is_stale=is_stale)

    async def retire_pressed(self, supervisor: Supervisor, channel: Channel, approval: str, card: str) -> None:
        """Take the buttons off a card that looked live and was not; perhaps nobody else knows of it (R3)."""
        try:
            await channel.retire(await supervisor.get_approval(approval), card)
        except (SupervisorError, OSError) as error:
            log.warning("card.not_retired", channel=self._channel, approval=approval, error=repr(error))

    async def say(self, supervisor: Supervisor, text: str, identity: str, now: datetime, room: int) -> str:
        """Take a slash command, and return what to answer: pending, approve ID, deny ID REASON, answer ID TEXT.

        `room`: UTF-16 units that a list may have. Raises StoreError.
        """
        verb, _, rest = text.strip().partition(" ")
        approval_id, _, words = rest.strip().partition(" ")
        if verb.lower() in ("", "pending"):
            return await self._pending(supervisor, identity, now, room)
        code = _VERBS.get(verb.lower())
        if code is None or not approval_id:
            return "Say: pending, approve ID, deny ID REASON, or answer ID TEXT. pending lists what waits, with ids."
        found = await self.find_entitled(supervisor, approval_id, identity)
        if isinstance(found, str):
            return found
        if code in (APPROVE, DENY) and is_yes_or_no(found.approval.schema):
            code = "yes" if code == APPROVE else "no"
        elif code == DENY and words:
            code = EXPLAIN
        if words.strip() and code not in (EXPLAIN, REPLY):
            return f"Nothing was decided: say {verb.lower()} and the id alone. What takes words is deny, and answer."
        return (await self.decide(supervisor, found, code, words.strip(), now)).text

    async def _pending(self, supervisor: Supervisor, identity: str, now: datetime, room: int) -> str:
        person = self.find_person(identity)
        if isinstance(person, str):
            return person
        waiting = await supervisor.find_approvals(limit=LISTED)
        count = len(waiting) if len(waiting) < LISTED else (await supervisor.get_counts()).pending_approvals
        lines = (self._line(approval, person, now) for approval in waiting)
        return fit_lines(lines, count, room) or "Nothing waits for a person."

    def _line(self, approval: Approval, person: Person, now: datetime) -> str:
        may = "" if self._people.why_not_decide(person.name, approval) is None else ", for somebody else"
        what = fit(f"{path_text(approval.path)}: {summary(approval)}", LINE, remark=False)
        return f"{approval.id}  {what}, {ago(approval.created_at, now)}{may}"


LISTED: Final = 200
"""Approvals that are looked at for a list: more than there is room for."""
LINE: Final = 200
"""UTF-16 units of what is said about one of many."""
_VERBS: Final = {"approve": APPROVE, "yes": APPROVE, "deny": DENY, "reject": DENY, "no": DENY, "answer": REPLY}
