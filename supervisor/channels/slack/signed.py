"""Requests over HTTP: verifies that Slack sent them, and returns the payload that Socket Mode would bring.

Rules
- The signature over the time and the body is verified before anything is parsed. A request older than five minutes is
  refused, since another person may have recorded it and sent it again.
- Interactions and slash commands are forms (an interaction's JSON is the field `payload`), events are JSON.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from slack_sdk.signature import SignatureVerifier

from supervisor.channels.slack.payloads import AGAIN
from supervisor.core.errors import InvalidInput


def is_genuine(verifier: SignatureVerifier, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether Slack signed the request within the last five minutes. Raises for no request of a stranger."""
    try:
        return verifier.is_valid_request(body, dict(headers))
    except (ValueError, TypeError, OverflowError):  # no number, or no time; no text; a signature that is not ASCII
        return False


def payload_of(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the payload of a verified request; raises InvalidInput for a request without one."""
    named = {name.lower(): value for name, value in headers.items()}
    try:
        if named.get("content-type", "").startswith("application/json"):
            return {**msgspec.json.decode(body, type=dict[str, Any]), AGAIN: "x-slack-retry-num" in named}
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True))
        return msgspec.json.decode(fields["payload"], type=dict[str, Any]) if "payload" in fields else fields
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"this is not a request of Slack's: {error}") from None
