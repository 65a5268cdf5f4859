"""Channels, where people answer: the terminal, Telegram, Slack, Discord, and the interface for a channel of your own.
E-mail only notifies.

`Telegram`, `Slack` and `Discord` each need the extra of their name, and are imported on first use.
"""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.channels.discord import Discord
    from supervisor.channels.mail import Email, EmailRefused, SmtpServer
    from supervisor.channels.slack import Slack
    from supervisor.channels.telegram import Telegram
    from supervisor.channels.terminal import Terminal
    from supervisor.core.approvals.reminders import EscalationStep
    from supervisor.core.approvals.routes import Route
    from supervisor.seam.channel import Channel, Webhook, WebhookReply

__all__ = [
    "Channel",
    "Discord",
    "Email",
    "EmailRefused",
    "EscalationStep",
    "Route",
    "Slack",
    "SmtpServer",
    "Telegram",
    "Terminal",
    "Webhook",
    "WebhookReply",
]

if not TYPE_CHECKING:  # a type checker knows the names by the imports above
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "supervisor.seam.channel": "Channel Webhook WebhookReply",
            "supervisor.channels.discord": "Discord",
            "supervisor.channels.mail": "Email EmailRefused SmtpServer",
            "supervisor.channels.slack": "Slack",
            "supervisor.channels.telegram": "Telegram",
            "supervisor.channels.terminal": "Terminal",
            "supervisor.core.approvals.reminders": "EscalationStep",
            "supervisor.core.approvals.routes": "Route",
        },
    )
