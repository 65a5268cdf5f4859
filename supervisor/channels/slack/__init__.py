"""Slack as a channel.

channel   cards, and what people do           blocks    an approval as Block Kit, within every limit
payloads  what Slack sends, as values         talk      sessions in threads
signed    requests over HTTP, proved genuine  socket    Socket Mode
web       the Web API, at Slack's pace
"""

from supervisor.channels.slack.channel import Slack
from supervisor.channels.slack.talk import Talk

__all__ = ["Slack", "Talk"]
