"""The terminal as a channel: cards with keys where somebody can type, plain lines where nobody can."""

from supervisor.channels.terminal.channel import Terminal, login_name

__all__ = ["Terminal", "login_name"]
