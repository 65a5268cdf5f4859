"""Telegram as a channel: a bot whose cards people press, and with which they talk.

channel   a platform, for the chat driver            messages  an approval as text and buttons, within every limit
updates   what Telegram sends, as values             polling   fetches what Telegram sends, and confirms it
bot_api   the methods of the Bot API, with the token in no URL that a log or an error shows
talk      chats as places of sessions
settings  its table in supervisor.toml
"""

from supervisor.channels.telegram.bot_api import BotApi, TelegramRefused
from supervisor.channels.telegram.channel import Telegram
from supervisor.channels.telegram.settings import TelegramSettings

__all__ = ["BotApi", "Telegram", "TelegramRefused", "TelegramSettings"]
