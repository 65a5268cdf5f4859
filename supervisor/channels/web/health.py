"""The health probes of a daemon: whether its process runs, and whether it accepts work. They need no token."""

from typing import Final

from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoints, json_document
from supervisor.channels.web.schemas import Health, Readiness
from supervisor.channels.web.state import Site
from supervisor.system.refusals import HELD, WHAT_HOLDS

ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /health", {200: Health}, need="none")
async def health(call: Call) -> Response:
    """Say whether the process runs.

    Answer at all: that shows it. Say also whether the system keeps what agents run from deciding.
    """
    return json_document(Health("ok", held=HELD, note=None if HELD else WHAT_HOLDS))


@ENDPOINTS.add("GET /ready", {200: Readiness, 503: Readiness}, need="none")
async def ready(call: Call) -> Response:
    """Say whether the server accepts work now, and which channels are down.

    It does if it is neither starting nor stopping, and its store can be read.
    A channel that is down is named, and changes nothing else: people can still decide in the inbox.
    """
    if call.site.is_stopping:
        return json_document(Readiness("stopping"), 503)
    if call.site.serving is None:
        return json_document(Readiness("starting"), 503)
    try:
        await call.site.serving.check()
    except Exception as error:  # noqa: BLE001 # after any error it is not ready
        return json_document(Readiness("broken", str(error)), 503)
    return json_document(Readiness("ok", channels_down=down_of(call.site)))


def down_of(site: Site) -> tuple[str, ...]:
    """Return the names of the channels that are down."""
    return tuple(channel.name for channel in site.channels if channel.down or channel.failing)
