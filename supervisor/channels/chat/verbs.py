"""The seam between cards and a chat platform: what a platform can do. cards.py and driver.py do the rest, the same on
all platforms. platform.py is the seam for conversations.

    draw      an approval, as a message in the platform's form         pure
    read      what the platform sends, as an act of a person           pure
    write     post a message                                           edit  replace the content of one
    find      the messages that stand in a place                       form  open a form
    whisper   tell something to one person alone

Rules
- A verb raises Refused if the platform refuses (refusals.py), ConnectionRefusedError if it did not do it, and OSError
  if it may or may not have done it.
- What a platform cannot do is in its `limits`. The driver asks for nothing else.
- A card's id is CONVERSATION:MESSAGE. A former version wrote after a second colon which reminder it had sent.
- The message of a card carries a mark, CARD and the approval's id, by which `find` recognises it.
- `draw` gives the same content for the same approval at any time, except for the face "retired".
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any, Final, Literal, Protocol

import anyio
import msgspec

from supervisor.channels.chat.acts import Act, Answer, Command, Place, Press, Said
from supervisor.channels.chat.answering import Answering
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.chat.interview import Prompt
from supervisor.channels.chat.platform import Chat, IncomingMessage
from supervisor.core.approvals.facts import Fact
from supervisor.core.errors import InvalidInput
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor

CARD: Final = "approval:"
"""The beginning of the mark of a card."""
Face = Literal["card", "unopened", "notice", "retired", "reminder"]
"""unopened: a card whose buttons follow; notice: a card without arguments and buttons; reminder: a message about a
card."""
Mentioned = Sequence[tuple[str, str]]
"""(identity, name) of each person whom a message mentions."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform can do, and how much."""

    title: str
    """The platform's name for people."""
    list_units: int
    """UTF-16 units of a list of approvals."""
    searches: bool = True
    """Whether the app can read the messages of a place. If not, a card is opened after it was recorded."""
    reopens: bool = False
    """Whether the app can open a closed place."""
    shown_units: int = 2000
    """UTF-16 units of what was filled in, where that is shown in a message."""
    identity: str = ".+"
    """The form of an identity that a message can mention: a regular expression."""
    answers_within: float = 2.0
    """Seconds within which the platform gets a response, even if work remains."""


class Drawn(msgspec.Struct, frozen=True):
    """A message in the platform's form. `mark`: by which `find` recognises a reminder."""

    content: dict[str, Any]
    mark: str = ""


class Seen(msgspec.Struct, frozen=True):
    """A message that stands in a place."""

    message: str
    marks: Collection[str] = ()

    @property
    def is_card(self) -> bool:
        return any(mark.startswith(CARD) for mark in self.marks)


class Serving(msgspec.Struct, frozen=True):
    """What a platform's own commands work with."""

    supervisor: Supervisor
    answering: Answering
    conversations: Conversations | None
    home: Place
    """The configured conversation."""


class Driver(Protocol):
    """What takes the acts of people while a platform listens; driver.py says how."""

    async def take(self, payload: Any) -> Any: ...
    async def take_in_turn(self, payload: Any, is_again: bool) -> None: ...


class Questions(Protocol):
    """The messages that ask for a text where there are no forms; a module may be it. `person`: identity and name;
    `token`: of the question (filling.py)."""

    def fits_data(self, approval: Approval, /) -> bool:
        """Return whether a button can carry an answer to a question about an approval."""

    def prompt_message(
        self, code: str, approval: Approval, message: str, person: tuple[str, str], link: str | None, /
    ) -> dict[str, Any]:
        """Ask for a text in a reply, below a message. Raises InvalidInput for a press without a form."""

    def field_message(
        self, prompt: Prompt, part: tuple[int, int], token: str, approval: Approval, person: tuple[str, str], /
    ) -> dict[str, Any]:
        """Ask for one field. `part`: its number, and that of all."""

    def filled_message(
        self, shown: str, problems: Sequence[str], token: str, code: str, approval: Approval, person: tuple[str, str], /
    ) -> dict[str, Any]:
        """Show what was filled in, or its problems, with the button that decides."""

    def left_message(self, text: str, /) -> dict[str, Any]:
        """Return what takes the place of a question that needs no answer any more."""


class Platform(ABC):
    """A chat platform. One for all places of a channel."""

    limits: Limits
    webhook: str = ""
    """The path to which the platform posts; "" if it does not."""
    deferred: Any = None
    """The response to a request whose answer comes later."""
    unknown: Any = None
    """The response to a request that means nothing."""
    questions: Questions | None = None
    """How texts are asked for, if the platform has no forms."""

    # -- cards -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def draw(
        self,
        face: Face,
        approval: Approval,
        *,
        link: str | None,
        mentioned: Mentioned = (),
        card: str = "",
        others: Sequence[Approval] = (),
    ) -> Drawn:
        """Draw an approval. `link`: the address of the web inbox. `card`: the id of the card of a reminder; `others`:
        the other approvals of which it reminds."""

    @abstractmethod
    def shows(self, approval: Approval) -> Sequence[Fact]:
        """Return the facts that a card shows whole, as `Channel.shows` says."""

    @abstractmethod
    async def write(self, place: Place, content: dict[str, Any], once: str = "", below: str = "") -> str:
        """Post a message, and return its id as that of a card. `once`: of equal ones, the platform may post the first
        alone. `below`: the message to which it is a reply; only `questions` need it."""

    @abstractmethod
    async def edit(self, card: str, content: dict[str, Any]) -> None:
        """Replace the content of a message."""

    def find(self, place: Place, since: datetime | str, until: datetime) -> AsyncGenerator[Seen, None]:
        """Iterate over the messages of a place between two instants, or from a message on."""
        raise NotImplementedError

    def order(self, message: str) -> Any:
        """Return what sorts the messages of a place in their order."""
        return int(message)

    async def reopen(self, place: Place) -> None:
        """Open a closed place."""
        raise NotImplementedError

    def place(self, text: str) -> Place:
        """Read a place as the configuration names it: a conversation, or "@" and an identity. Raises InvalidInput."""
        raise InvalidInput(f"{self.limits.title} has one place only")

    async def locate(self, place: Place) -> Place:
        """Return the conversation of a place that is named by a person."""
        return place

    def place_of(self, session: str) -> Place | None:
        """Return the place of a session that began on the platform, None for any other."""
        return None

    async def below(self, home: Place, card: str) -> Place:
        """Return where a message about a card is posted. `home`: the place of the card's session."""
        return Place(card.split(":")[0])

    def is_direct(self, place: Place) -> bool:
        """Return whether a place is a chat with one person, whom each message notifies."""
        return False

    # -- what people do ----------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, payload: Any) -> Act | None:
        """Return what the platform sends as an act; None for what means nothing. Raises InvalidInput for what the
        platform would not send."""

    @abstractmethod
    async def whisper(self, act: Act, answer: Answer) -> None:
        """Answer a person after the response, alone if possible."""

    def respond(self, act: Act, answer: Answer) -> Any:
        """Return the response that carries an answer; None if it is whispered."""
        return None

    async def form(self, press: Press, approval: Approval, link: str | None) -> Any:
        """Open the form of a press; or return the response that opens it. Raises InvalidInput for a press without a
        form."""
        raise NotImplementedError

    async def incoming(self, said: Said) -> IncomingMessage | str:
        """Return a message as its session hears it, or the text that tells its sender why none does."""
        raise NotImplementedError

    async def begun(self, session: str) -> None:  # noqa: B027 # most platforms need not know
        """A message began a session in its place."""

    async def run(self, command: Command, serving: Serving) -> Answer | None:
        """Run a command that only this platform has; None for all others."""
        return None

    # -- its connection ----------------------------------------------------------------------------------------------

    async def check(self, home: Place, *, is_serving: bool, talks: bool) -> str:
        """Ask whether the channel can work, as `Channel.check` says. `talks`: whether people talk to an agent."""
        return ""

    def connected(self) -> AbstractAsyncContextManager[Any]:
        """Hold what serving needs, such as a client of HTTP."""
        return nullcontext()

    async def listen(self, driver: Driver) -> None:
        """Fetch what people do until cancelled. A platform that posts to a webhook fetches nothing."""
        await anyio.sleep_forever()

    def open_request(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Any:
        """Return what a request to the webhook carries; None if the platform did not sign it. Raises InvalidInput."""
        raise NotImplementedError

    def greet(self, payload: Any) -> Any:
        """Return the response to a request that only asks whether the webhook is there; None to another one."""
        return None

    def make_chat(self, serving: Callable[[], Supervisor]) -> Chat | None:
        """Return the seam for conversations; None if there are none. `serving`: returns the supervisor."""
        return None
