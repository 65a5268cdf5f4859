"""Routes of other channels, for requests from chat platforms. Each channel verifies its sender by a signature."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from supervisor.channels.web.bounds import read_body
from supervisor.seam.channel import Channel, Webhook

LARGEST_BYTES: Final = 1024 * 1024
"""The most bytes of a request: all clients may send one, and its signature is checked only when all of it is read."""


def webhook_routes(channels: Sequence[Channel]) -> list[BaseRoute]:
    return [
        Route(f"/channels/{channel.name}{webhook.path}", _receiver(webhook), methods=["POST"])
        for channel in channels
        for webhook in channel.webhooks()
    ]


def _receiver(webhook: Webhook) -> Callable[[Request], Awaitable[Response]]:
    async def receive(request: Request) -> Response:
        reply = await webhook.receive(dict(request.headers), await read_body(request, LARGEST_BYTES))
        return Response(reply.body, reply.status, media_type=reply.media_type)

    return receive
