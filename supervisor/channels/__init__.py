"""Channels, where people answer: the terminal, Slack, Discord, and the interface for a channel of your own.

`Slack` needs the extra `slack`, `Discord` the extra `discord`. Each is imported on first use.
"""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.abc import Channel, Webhook, WebhookReply
    from supervisor.channels.discord import Discord
    from supervisor.channels.slack import Slack
    from supervisor.channels.terminal import Terminal

__all__ = [
    "Channel",
    "Discord",
    "Slack",
    "Terminal",
    "Webhook",
    "WebhookReply",
]

if not TYPE_CHECKING:  # a type checker knows the names by the imports above
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "supervisor.abc": "Channel Webhook WebhookReply",
            "supervisor.channels.discord": "Discord",
            "supervisor.channels.slack": "Slack",
            "supervisor.channels.terminal": "Terminal",
        },
    )
