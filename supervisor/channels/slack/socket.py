"""Socket Mode: Slack sends its requests over a connection that the app has opened, so the app needs no public address.

The SDK's client runs in its own threads and reconnects by itself. Each payload crosses into the event loop, and its
answer comes back, so that Slack gets an answer only after the channel has taken the payload. A lost connection is
logged: it is the only sign of a revoked token, and without a connection no press arrives.
"""

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import Any, Final

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal
from slack_sdk import WebClient
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from supervisor.channels.slack.payloads import AGAIN as DELIVERED_AGAIN
from supervisor.core.errors import InvalidInput
from supervisor.system.logs import FactLog
from supervisor.system.threads import in_thread

log = FactLog(__name__)

CLOSING_SECONDS: Final = 5.0  # seconds that closing the connection may take
PING_SECONDS: Final = 2.0  # seconds between two pings; after four without an answer, the SDK connects again
LOOK_SECONDS: Final = 10.0  # seconds between two checks of the connection
AGAIN_SECONDS: Final = 10.0  # seconds between two attempts to make the first connection

Take = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]


async def listen(app_token: str, web: WebClient, take: Take, note: Callable[[bool], None]) -> None:
    """Take requests until cancelled. `note`: told whether there is a connection, at each check."""
    async with BlockingPortal() as portal:
        client = SocketModeClient(app_token=app_token, web_client=web, logger=_silent(), ping_interval=PING_SECONDS)

        def receive(connection: BaseSocketModeClient, request: SocketModeRequest) -> None:
            try:
                answer = portal.call(take, {**request.payload, DELIVERED_AGAIN: bool(request.retry_attempt)})
            except (CancelledError, RuntimeError, anyio.ClosedResourceError):
                return  # the channel is closing: Slack gets no acknowledgement, and delivers it again
            except InvalidInput as error:
                log.warning("request.refused", channel="slack", reason=str(error))
                answer = None  # acknowledged: a second delivery would be refused as well
            connection.send_socket_mode_response(
                SocketModeResponse(envelope_id=request.envelope_id, payload=answer or None)
            )

        client.socket_mode_request_listeners.append(receive)
        try:
            while True:
                try:
                    await in_thread(client.connect)
                    note(True)
                    break
                except Exception as error:  # noqa: BLE001 # the SDK lets the exceptions of all its layers pass
                    log.error("slack.not_connected", error=repr(error), again_in=AGAIN_SECONDS)
                    note(False)
                await anyio.sleep(AGAIN_SECONDS)
            await say_when_gone(client.is_connected, note)
        finally:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await anyio.to_thread.run_sync(client.close, abandon_on_cancel=True)
            await portal.stop(cancel_remaining=True)


async def say_when_gone(is_connected: Callable[[], bool], note: Callable[[bool], None]) -> None:
    """Log at each check that there is no connection, and once that it is back."""
    was_gone = False
    while True:
        await anyio.sleep(LOOK_SECONDS)
        is_gone = not is_connected()
        note(not is_gone)
        if is_gone or was_gone:
            log.warning(
                "slack.not_connected" if is_gone else "slack.connected", again_in=LOOK_SECONDS if is_gone else None
            )
        was_gone = is_gone


def _silent() -> logging.Logger:
    """Return a logger that drops everything: the SDK logs all it sends and receives, with tokens."""
    logger = logging.getLogger("supervisor.slack.socket")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger
