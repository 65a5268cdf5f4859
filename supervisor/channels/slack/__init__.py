"""Slack as a channel.

channel   a platform, for the chat driver     blocks    an approval as Block Kit, within every limit
payloads  what Slack sends, as values         talk      threads as places of conversations
signed    requests over HTTP, proved genuine  socket    Socket Mode
web       the Web API, at Slack's pace        settings  its table in the configuration
"""

from supervisor.channels.slack.channel import Slack
from supervisor.channels.slack.settings import SlackSettings

__all__ = ["Slack", "SlackSettings"]
