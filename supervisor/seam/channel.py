"""What a channel implements, where people answer, and the webhooks that platforms call."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import People
from supervisor.core.errors import InvalidInput, SupervisorError
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor


class WebhookReply(msgspec.Struct, frozen=True):
    """The answer of a webhook, which the daemon sends to the platform as it is."""

    status: int = 200
    """The status of HTTP."""
    body: bytes = b""
    media_type: str = "application/json"
    """The Content-Type of the body."""


class Webhook(msgspec.Struct, frozen=True):
    """A path to which a platform posts. It begins with "/", and is below /channels/NAME of the daemon. `receive` gets
    the headers (names in lower case) and the body, and first verifies the platform's signature. It returns within the
    platform's bound (3 s); longer work belongs into a task of `Channel.serve`."""

    path: str
    receive: Callable[[Mapping[str, str], bytes], Awaitable[WebhookReply]]


class CardGone(SupervisorError):
    """The card that a channel is to renew does not exist any more, or cannot be reached: a person has deleted it, or
    has removed the app."""


async def at_once() -> None:
    """The turn of a channel whose process is the only one."""


class Channel(ABC):
    """A surface where people see approvals and answer.

    - For a reminder, `post` is called again with its card and with `reminded_at` set. Then `remind` tells people of it,
      or `remind_all` of all that became due in `gather` seconds (A10). If `post` returns another id for the card, the
      channel has reminded people by itself, and neither is called.
    - `post` and `retire` may be called again for the same approval. After a restart they get the card that the earlier
      process left, and the card may be as it should be. The caller bounds their time. If `post` raises, the approval
      also goes to the next channel, and this one is tried again later, until it takes the approval or the approval is
      decided.
    - A card is posted again, after a restart too, only if its `face` differs from that of the last post. If the card is
      gone, `post` and `notify` raise CardGone; then they are called without it.
    - A card that cannot show an approval whole has no button that approves it.
    - A channel decides through the Supervisor that `serve` gets, with the approval's id, never "what waits" (A2).
    - Text of agents and tools is hostile: `supervisor.channels.sdk` has what makes it harmless.
    - Where machines share a store, each has the channel. `post` and `retire` may be called in any of them; only one of
      them may listen to the platform: `serve` first waits for `turn`.
    - Routes (`[[routes]]`) post to several places: `at` returns the channel of one place, whose `post`, `notify`,
      `find_card`, `remind` and `retire` are called. Only the channel itself serves.
    """

    name: str
    """In the configuration the NAME of its table [channels.NAME]. Journals, identities and webhooks have it."""
    card_timeout: float = 30.0
    """Seconds that finding, showing or retiring one card may take."""
    card_again: float = 5.0
    """Seconds until a card that could not be shown or retired is tried again; doubled each time, up to ten minutes."""
    gather: float = 60.0
    """Seconds for which reminders are gathered after the first one, to be one message."""
    gather_again: float = 300.0
    """Seconds between two of these messages, at least. What is urgent does not wait."""
    check_again: float = 15.0
    """Seconds until a channel that is down is checked again."""
    people: "People | None" = None
    """The people whom it authenticates; None if it authenticates no people."""
    keeps_cards: bool = False
    """Whether its cards outlive the process. If so, CardBegun is journaled before a card is posted."""
    only_notifies: bool = False
    """Whether its cards only say that an approval waits, and where: no person can decide by them. Each approval also
    goes to the next channel."""
    turn: Callable[[], Awaitable[None]] = staticmethod(at_once)
    """Returns when this process is the one that listens. The supervisor sets it."""
    down: str | None = None
    """Why people cannot be reached here now, in one line without secrets; None if they can, as far as is known. The
    supervisor sets it by `check`. The log, metrics and /ready show it."""
    failing: str | None = None
    """As `down`; the supervisor sets it after some cards in a row could not be shown, and a card that is shown ends it.
    So a channel without a `check` shows, too, when it reaches no person."""
    opens_cards: bool = False
    """Whether a new card has no buttons until `post` is called once more, with the card, after it was recorded. For a
    platform that cannot be searched for cards: a card that no process knows of does not look live."""

    remind_on_start: bool = False
    """Whether the cards of an earlier process are looked at after a restart (`is_in_sight`), a few each second. Those
    that people do not see any more are posted anew."""

    @property
    def asks(self) -> bool:
        """Whether a person can answer on this channel now. If not, an approval also goes to the next channel, and is
        not journaled as shown here."""
        return not self.only_notifies

    def at(self, place: str) -> "Channel":
        """Return a channel whose cards go to another place: a conversation by its id, or "@" and the identity of a
        person for a direct message. Contacts nothing. `copy.copy(self)` with another conversation is enough.

        Raises InvalidInput for a text that names no place here, which `supervisor check` reports. By default a channel
        has one place.
        """
        raise InvalidInput(f"{self.name} has one place only: write {self.name!r}, without {place!r}")

    async def check(self) -> str:
        """Ask the platform whether the channel can work: its token, its rights, and its place there. Return what it
        found, in one line, such as "@supervisor in #ops". It sends no message, and works without `serve`, too.

        Raises SupervisorError, which says what to change; OSError if the platform cannot be reached. Neither has a
        secret in it. A supervisor asks at the start and every minute, and `supervisor check --online` asks once. By
        default there is nothing to ask.
        """
        return ""

    @abstractmethod
    async def serve(self, supervisor: "Supervisor") -> None:
        """Listen for answers until cancelled."""

    @abstractmethod
    async def post(self, approval: Approval, card: str | None) -> str:
        """Show an approval, and return the id of its card. `card`: the id that an earlier post returned.

        Raises CardGone if `card` does not exist any more; OSError if it is not known whether the approval is shown;
        ConnectionRefusedError, or any other exception, if it is not shown.
        """

    def face(self, approval: Approval, *, is_notice: bool = False) -> str | None:
        """Return what `post` (with `is_notice`: `notify`) would show now, such as the message as JSON. Two cards with
        the same text look the same. None: not known, so that cards are renewed at each start."""
        return None

    async def notify(self, approval: Approval, card: str | None) -> str:
        """Say that an approval waits and where (a link), without buttons; otherwise as `post`, which a channel that
        only notifies uses for it. Raises InvalidInput if the channel cannot do that."""
        if not self.only_notifies:
            raise InvalidInput(f"{self.name} cannot notify without asking: write it under `ask`")
        return await self.post(approval, card)

    async def remind(self, approval: Approval, card: str) -> None:  # noqa: B027 # a channel may do nothing
        """Notify people of an approval that still waits (`reminded_at`, `escalated_to`), if a changed card does not
        do that on this platform. After a restart this is called again: a message that is there is not sent twice.
        Raises as `post` does; then it is called again later."""

    async def remind_all(self, due: Sequence[tuple[Approval, str]]) -> None:
        """Remind people of several approvals at once, each with its card; "" if it has none here. One message for each
        person or conversation is right where it makes a sound. Otherwise as `remind`, which is called for each if a
        channel does not say more."""
        for approval, card in due:
            await self.remind(approval, card)

    async def is_in_sight(self, approval: Approval, card: str) -> bool:
        """Return whether people still see a card that an earlier process left: it exists, and few messages follow it.
        If not, the card is retired, and the approval is posted anew. True where the platform does not tell."""
        return True

    async def find_card(self, approval: Approval, since: datetime, until: datetime) -> str | None:
        """Return a card that an earlier process may have posted between two instants, before it died without noting it.
        None if there is no such card, or if the channel cannot search for cards."""
        return None

    def shows(self, approval: Approval) -> Iterable[Fact]:
        """Return the facts that the card shows whole: each with all of its text, where a person reads it. `shown_whole`
        of supervisor.channels.sdk finds them among the drawn ones. A card is whole if no fact is missing that a
        decision needs. If it is not, no button approves with one press, and a bare "yes" in the conversation decides
        nothing (A11, A12). A channel that does not say shows none."""
        return ()

    def webhooks(self) -> Sequence[Webhook]:
        """Return the webhooks that the channel's platform calls at a daemon; none by default."""
        return ()

    @abstractmethod
    async def retire(self, approval: Approval, card: str) -> None:
        """Show on the card what was decided and by whom, so that it does not look live any more (R3)."""
