"""Routes of other channels: what a chat platform sends to us. Each proves itself who is talking, by a signature."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from supervisor.abc import Channel, Webhook
from supervisor.channels.web.bounds import read_body

LARGEST: Final = 1024 * 1024
"""Bytes of what a platform sends: anybody may send it, and its signature is checked when all of it is there."""


def webhook_routes(channels: Sequence[Channel]) -> list[BaseRoute]:
    return [
        Route(f"/channels/{channel.name}{webhook.path}", _receiver(webhook), methods=["POST"])
        for channel in channels
        for webhook in channel.webhooks()
    ]


def _receiver(webhook: Webhook) -> Callable[[Request], Awaitable[Response]]:
    async def receive(request: Request) -> Response:
        reply = await webhook.receive(dict(request.headers), await read_body(request, LARGEST))
        return Response(reply.body, reply.status, media_type=reply.media_type)

    return receive
