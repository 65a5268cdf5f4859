"""E-mail as a channel that only notifies: it says that an approval waits, and where people decide it.

channel   who is told, and when     letters   an approval as a message
smtp      one message by SMTP       settings  its table in supervisor.toml
"""

from supervisor.channels.mail.channel import Email
from supervisor.channels.mail.settings import EmailSettings
from supervisor.channels.mail.smtp import EmailRefused, SmtpServer

__all__ = ["Email", "EmailRefused", "EmailSettings", "SmtpServer"]
