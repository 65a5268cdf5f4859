"""Discord as a channel.

channel       a platform, for the chat driver  components  an approval as embed and buttons, within every limit
interactions  what Discord sends, as values    commands    slash commands
talk          threads of conversations         rest        the REST interface, at Discord's pace
settings      its table in the configuration
"""

from supervisor.channels.discord.channel import Discord
from supervisor.channels.discord.commands import register
from supervisor.channels.discord.rest import DiscordRefused, DiscordRest
from supervisor.channels.discord.settings import DiscordSettings

__all__ = ["Discord", "DiscordRefused", "DiscordRest", "DiscordSettings", "register"]
