"""Channels that only notify: people decide elsewhere, where they are known.

ntfy     a push notification to phones              hook  a signed HTTP request to a program
sending  what both share: requests that follow no redirects
"""

from supervisor.channels.notices.hook import Hook, HookSettings
from supervisor.channels.notices.ntfy import Ntfy, NtfySettings

__all__ = ["Hook", "HookSettings", "Ntfy", "NtfySettings"]
