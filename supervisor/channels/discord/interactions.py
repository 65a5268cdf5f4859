"""Discord's interactions as values, and the immediate answers to them.

Rules
- The Ed25519 signature over the time and the body is verified before anything is parsed: Discord sends forged requests
  on purpose, and drops an endpoint that accepts them. A request that is not of the last five minutes is refused, since
  another person may have recorded it; Discord itself gives up after three seconds.
- An interaction of another kind is None. One with a value of another type where Discord has a text is refused, and so
  is one from another application than the configured one.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from supervisor.channels.chat.acts import Command, Press
from supervisor.channels.discord.components import read_custom_id
from supervisor.core.errors import InvalidInput

Payload = dict[str, Any]

Id = Annotated[str, msgspec.Meta(pattern=r"^\d{1,20}$")]
"""An id, which contains the time at which Discord made it."""

WINDOW_SECONDS: Final = 300  # seconds
PING: Final = 1
MODAL: Final = 9
PONG: Final[Payload] = {"type": 1}
EPHEMERAL: Final = 64
DEFERRED_REPLY: Final[Payload] = {"type": 5, "data": {"flags": EPHEMERAL}}
"""The answer comes later, and only the person who acted sees it. The message with the buttons does not change."""


class DiscordPress(Press, frozen=True, kw_only=True):
    """A press. `token`: by which it is answered later."""

    token: str


class SlashCommand(Command, frozen=True, kw_only=True):
    """A slash command, with its options by name."""

    name: str
    options: Mapping[str, str]
    token: str
    id: Id = "0"
    place: Id = "0"
    """The channel or thread in which it was used."""


def is_genuine(key: Ed25519PublicKey, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Whether Discord signed the request within the last five minutes. Raises for no request of a stranger."""
    named = {name.lower(): value for name, value in headers.items()}
    try:
        signature, stamp = bytes.fromhex(named["x-signature-ed25519"]), named["x-signature-timestamp"]
        key.verify(signature, stamp.encode() + body)
        return abs(now.timestamp() - int(stamp)) <= WINDOW_SECONDS
    except (KeyError, ValueError, OverflowError, InvalidSignature):
        return False


def read(payload: Payload, application: str | None = None) -> DiscordPress | SlashCommand | None:
    """Return an interaction as a value; None for other kinds. `application`: the id that it must come from.

    Raises InvalidInput for an interaction that Discord would not send, or not to this application.
    """
    act = _read(payload)
    if act is not None and application is not None and payload.get("application_id") != application:
        raise InvalidInput(f"this request comes from another application than the configured {application}")
    return act


def _read(payload: Payload) -> DiscordPress | SlashCommand | None:
    try:
        user = (payload.get("member") or payload)["user"]["id"]
        token, data = payload["token"], payload["data"]
        match payload["type"]:
            case 2:
                options = {option["name"]: str(option["value"]) for option in data.get("options", ())}
                where = {"id": payload.get("id", "0"), "place": payload.get("channel_id") or "0"}
                where |= {"text": _written(data["name"], options, where["place"]), "options": options}
                said = {"name": data["name"], "user": user, "token": token, **where}
                return msgspec.convert(said, SlashCommand)
            case 3 | 5 as kind:
                ids = read_custom_id(data["custom_id"])
                text, fields = _filled(data) if kind == 5 else (None, None)
                if ids is None:
                    return None
                code, approval = ids
                card = _card(payload)
                said = {"user": user, "token": token, "text": text, "fields": fields, "card": card}
                return msgspec.convert({"code": code, "approval": approval, **said}, DiscordPress)
            case _:
                return None
    except (KeyError, IndexError):
        return None
    except (TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"this is not an interaction of Discord's: {error}") from None


def _written(name: str, options: Mapping[str, str], place: str) -> str:
    """Return a command as its name, an id and a text. /stop without an id is of the thread."""
    if name == "stop" and "id" not in options:
        return f"{name} {session_of(place)}"
    return " ".join([name, *(options.get(each, "") for each in ("id", "text", "reason"))])


def session_of(thread: str) -> str:
    return f"discord-{thread}"


def _filled(data: Payload) -> tuple[str | None, dict[str, str] | None]:
    """Return the text of a form of one, or the texts of a form's fields, by their names."""
    first = data["components"][0]
    if "components" in first:
        return str(first["components"][0].get("value") or ""), None
    controls = [each["component"] for each in data["components"]]
    if controls[0]["custom_id"] == "text":
        return str(controls[0].get("value") or ""), None
    return None, {each["custom_id"]: each.get("value") or "".join(each.get("values") or ()) for each in controls}


def _card(payload: Payload) -> str:
    message = payload.get("message")
    return f"{message['channel_id']}:{message['id']}" if message else ""


def told(text: str) -> Payload:
    """Return an answer that only the person who acted sees."""
    return {"type": 4, "data": {"content": text, "flags": EPHEMERAL, "allowed_mentions": {"parse": []}}}


def said(text: str) -> Payload:
    """Return an answer that everyone in the place sees."""
    return {"type": 4, "data": {"content": text, "allowed_mentions": {"parse": []}}}


def modal(form: Payload) -> Payload:
    """Return an answer that opens a form."""
    return {"type": MODAL, "data": form}
