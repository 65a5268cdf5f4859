"""What it means for a card that a platform refuses a request, and what follows: one table for all platforms.

Theory: each platform has error codes of its own, and says the same few things with them. It gives each refusal one
meaning (`Refused.meaning`). FOLLOWS says what the driver does then, so no platform decides that.

    gone     the message, or the place that it was in, does not exist any more
    closed   the place is closed: an archived thread, for example
    fixed    the message stands, and cannot be changed any more; its buttons work
    out      the app was removed from the place, or may not see it any more
    busy     the platform takes no such request now
    denied   the app lacks a right, or its token is wrong; the error tells the operator what to change
    unknown  anything else

Rules
- A refusal whose meaning a platform does not know is `unknown`: nothing is concluded from it.
- A request that was not answered is no refusal: it raises OSError, and ConnectionRefusedError if it was not done.
- `again` raises the refusal. The caller tries again, after 5 seconds and then twice as long each time, up to ten
  minutes. The journal and the inbox say that the card has failed, and why (A11).
- A new card that a session's place refuses is posted in the configured conversation, whatever the meaning is.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from supervisor.core.errors import SupervisorError

Meaning = Literal["gone", "closed", "fixed", "out", "busy", "denied", "unknown"]
Deed = Literal["renew", "retire", "replace", "look", "rewrite"]
"""renew: edit the card of a pending approval; retire: remove the buttons of one that has ended; replace: remove the
buttons of a card in whose place another one is posted; look: search the place for the card; rewrite: edit or remove a
text that an agent is writing."""
Then = Literal["done", "lost", "kept", "again"]
"""done: there is nothing left to do; lost: another one is posted; kept: it stands as it is; again: raise, and try again
later."""


class Refused(SupervisorError):
    """A platform answered a request with an error."""

    meaning: Meaning = "unknown"


class Follows(msgspec.Struct, frozen=True, kw_only=True):
    """What follows a meaning, by what was refused. `opens`: first the place is opened, if the platform can do that, and
    the same request is made once more."""

    opens: bool = False
    renew: Then = "again"
    retire: Then = "again"
    replace: Then = "again"
    look: Then = "kept"
    rewrite: Then = "again"


FOLLOWS: Final[Mapping[Meaning, Follows]] = {
    "gone": Follows(renew="lost", retire="done", replace="done", look="lost", rewrite="lost"),
    "closed": Follows(opens=True, renew="lost", replace="done"),
    "fixed": Follows(renew="kept", retire="done", replace="done", rewrite="lost"),
    "out": Follows(renew="lost", replace="done"),
    "busy": Follows(),
    "denied": Follows(),
    "unknown": Follows(),
}


def what_follows(error: Refused, deed: Deed) -> Then:
    """Return what follows a refusal. Raises it if that is to try again."""
    then: Then = getattr(FOLLOWS[error.meaning], deed)
    if then == "again":
        raise error
    return then
