"""Requests from Slack: verified, if they come over HTTP, and as values: a press, perhaps with a form's text, a message,
a slash command.

Rules
- The signature over the time and the body is verified before anything is parsed. A request older than five minutes is
  refused, since another person may have recorded it and sent it again.
- Interactions and slash commands are forms (an interaction's JSON is the field `payload`), events are JSON. Socket Mode
  brings the payload itself.
- A payload of another kind, also one that Slack adds later, is None. The channel acknowledges it.
- A payload with a value of another type where Slack has a text is refused, so that only text of the right form leaves
  this module. A payload from another app or workspace than the configured one is refused, too: ids of people are unique
  only within a workspace.
- Messages of bots, edits in threads and joins do not count as messages of a person. What an app posts in a person's
  name (with their token, by a workflow) has the mark of the app.
- What a person forwards is an attachment, and no part of their text.
- Only a leading mention of this app is removed from a message: "@bob yes" is meant for bob, and decides nothing (A12).
- The agent cannot read files here. A message with files names them, so its text is no chat word any more.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from slack_sdk.signature import SignatureVerifier

from supervisor.channels.chat.acts import Command, Press, Said
from supervisor.core.errors import InvalidInput

Payload = dict[str, Any]
Time = Annotated[str, msgspec.Meta(pattern=r"^\d{1,12}\.\d{1,12}$")]
"""The time of a message, which is its id in its conversation."""

AGAIN: Final = "delivered_again"
"""Key that the transport adds to a payload which a header or an envelope says is delivered again."""
_MENTION: Final = re.compile(r"\s*<@([A-Z0-9]+)(?:\|[^>]*)?>:?")
_SPOKEN: Final = (None, "file_share", "thread_broadcast")
"""Subtypes of messages that a person wrote: plain, with files, and in a thread but also shown outside it."""
_BY_APP: Final = ("bot_id", "bot_profile", "app_id")
"""Fields of a message that an app wrote, also in the name of a person."""
_LINK: Final = re.compile(r"<((?:https?://|mailto:)[^|>]+)(?:\|[^>]*)?>")


class SlackPress(Press, frozen=True, kw_only=True):
    """A press. `trigger` opens a form, within 3 s."""

    conversation: str
    message: str
    trigger: str = ""
    thread: str = ""
    """The thread that the card is in; "" outside threads."""
    reply_to: str = ""
    """The address for an answer that only this person sees, also in conversations that the app is not in."""


class Words(Said, frozen=True, kw_only=True):
    """A person's message to the app, or in a thread; `text` is without a leading mention of the app. `is_to_app`: it
    mentions the app, or is a direct message to it.
    `is_again`: Slack delivers it again, since no acknowledgement came in time."""

    text: str
    conversation: str
    message: Time
    thread: Time


class SlackCommand(Command, frozen=True, kw_only=True):
    """A slash command, with the text that followed it."""

    conversation: str
    reply_to: str = ""


_SlackAct = SlackPress | Words | SlackCommand


def is_genuine(verifier: SignatureVerifier, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether Slack signed the request within the last five minutes. Raises for no request of a stranger."""
    try:
        return verifier.is_valid_request(body, dict(headers))
    except (ValueError, TypeError, OverflowError):  # no number, or no time; no text; a signature that is not ASCII
        return False


def payload_of(headers: Mapping[str, str], body: bytes) -> Payload:
    """Return the payload of a verified request; raises InvalidInput for a request without one."""
    named = {name.lower(): value for name, value in headers.items()}
    try:
        if named.get("content-type", "").startswith("application/json"):
            return {**msgspec.json.decode(body, type=dict[str, Any]), AGAIN: "x-slack-retry-num" in named}
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True))
        return msgspec.json.decode(fields["payload"], type=dict[str, Any]) if "payload" in fields else fields
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"this is not a request of Slack's: {error}") from None


def read(payload: Payload, *, app: str | None = None, team: str | None = None) -> _SlackAct | None:
    """Return a payload as a value; None for other kinds. `app`, `team`: the ids that it must come from.

    Raises InvalidInput for a payload that Slack would not send, or not to this app.
    """
    act = _read(payload)
    if act is not None:
        for name, ours, theirs in (("app", app, payload.get("api_app_id")), ("workspace", team, _team_of(payload))):
            if ours is not None and theirs != ours:
                raise InvalidInput(f"this request comes from another {name} than the configured {ours}")
    return act


def _team_of(payload: Payload) -> Any:
    """Return the workspace of the person who acts."""
    match payload:
        case {"user": {"team_id": str(team)}} | {"event": {"user_team": str(team)}} | {"team_id": team}:
            return team
        case {"team": {"id": team}}:
            return team
        case _:
            return None


def _read(payload: Payload) -> _SlackAct | None:
    try:
        match payload:
            case {"type": "block_actions", "actions": [action, *_]}:
                return _press(payload, action)
            case {"type": "view_submission", "view": view}:
                return _sent(payload, view)
            case {"type": "event_callback", "event": {"type": "app_mention" | "message"} as event}:
                return _words(payload, event)
            case {"command": str(), "user_id": str()}:
                return _typed(
                    SlackCommand,
                    user=payload["user_id"],
                    text=payload.get("text", ""),
                    conversation=payload["channel_id"],
                    reply_to=payload.get("response_url", ""),
                )
            case _:
                return None
    except KeyError:
        return None
    except (TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"this is not a request of Slack's: {error}") from None


T = TypeVar("T")


def _typed(kind: type[T], **fields: Any) -> T:
    return msgspec.convert(fields, kind)


def _press(payload: Payload, action: Payload) -> SlackPress | None:
    if not action["block_id"].startswith("approval:"):
        return None
    return _typed(
        SlackPress,
        code=action["action_id"],
        approval=action["value"],
        user=payload["user"]["id"],
        card=f"{payload['channel']['id']}:{payload['container']['message_ts']}",
        conversation=payload["channel"]["id"],
        message=payload["container"]["message_ts"],
        trigger=payload["trigger_id"],
        thread=payload["container"].get("thread_ts") or "",
        reply_to=payload.get("response_url", ""),
    )


def _sent(payload: Payload, view: Payload) -> SlackPress | None:
    kind, _, code = view["callback_id"].partition(".")
    if kind != "form":
        return None
    place = msgspec.json.decode(view["private_metadata"], type=dict[str, str])
    values = view["state"]["values"]
    is_text = "field" in values
    return _typed(
        SlackPress,
        code=code,
        approval=place["approval"],
        user=payload["user"]["id"],
        card=f"{place['conversation']}:{place['message']}",
        conversation=place["conversation"],
        message=place["message"],
        thread=place["thread"],
        text=values["field"]["text"].get("value") or "" if is_text else None,
        fields=None if is_text else {name: _filled(element["value"]) for name, element in values.items()},
    )


def _filled(element: Payload) -> str:
    """Return what a person filled into an element of a form."""
    chosen = (element.get("selected_option") or {}).get("value")
    return chosen or element.get("selected_date") or element.get("value") or ""


def _words(payload: Payload, event: Payload) -> Words | None:
    is_by_app = any(event.get(mark) for mark in _BY_APP)
    is_edited = "edited" in event and "thread_ts" in event  # outside threads, an edit may add the mention that begins
    if is_by_app or event.get("subtype") not in _SPOKEN or "user" not in event or is_edited:
        return None
    is_mention = event["type"] == "app_mention"
    apps = {each["user_id"] for each in payload.get("authorizations") or ()}
    text = event.get("text") or ""
    mention = _MENTION.match(text)
    if mention is not None and (mention[1] in apps or (is_mention and not apps)):
        text = text[mention.end() :]
    files = [f"[a file that cannot be read here: {file.get('name', 'unnamed')}]" for file in event.get("files") or ()]
    return _typed(
        Words,
        user=event["user"],
        text="\n".join([plain_text(text).strip(), *files]).strip(),
        conversation=event["channel"],
        message=event["ts"],
        thread=event.get("thread_ts") or event["ts"],
        is_to_app=is_mention or event.get("channel_type") == "im",
        is_again=bool(payload.get(AGAIN)),
    )


def plain_text(text: str) -> str:
    """Return the text as the person typed it: Slack writes links as <URL|LABEL>, and &, < and > as entities."""
    typed = _LINK.sub(r"\1", text)
    return typed.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
