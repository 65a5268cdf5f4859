"""Discord as a channel.

channel       cards, and what people do        components  an approval as embed and buttons, within every limit
interactions  what Discord sends, as values    rest        the REST interface, at Discord's pace
"""

from supervisor.channels.discord.channel import Discord, register
from supervisor.channels.discord.rest import DiscordRefused, DiscordRest

__all__ = ["Discord", "DiscordRefused", "DiscordRest", "register"]
