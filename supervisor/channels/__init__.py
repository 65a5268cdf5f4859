"""Channels, where people answer: the terminal, Telegram, Slack, Discord, and the interface for a channel of your own.
E-mail only notifies.

`Telegram`, `Slack` and `Discord` each need the extra of their name, and are imported on first use.
"""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.channels.discord import Discord as Discord
    from supervisor.channels.mail import Email as Email, EmailRefused as EmailRefused, SmtpServer as SmtpServer
    from supervisor.channels.slack import Slack as Slack
    from supervisor.channels.telegram import Telegram as Telegram
    from supervisor.channels.terminal import Terminal as Terminal
    from supervisor.core.approvals.reminders import EscalationStep as EscalationStep
    from supervisor.core.approvals.routes import Route as Route
    from supervisor.seam.channel import Channel as Channel, Webhook as Webhook, WebhookReply as WebhookReply

if not TYPE_CHECKING:  # a type checker knows the names by the imports above
    __all__, __getattr__, __dir__ = lazily(
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
