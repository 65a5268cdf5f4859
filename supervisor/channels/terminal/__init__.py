"""The terminal as a channel: cards with keys at an interactive terminal, plain lines elsewhere."""

from supervisor.channels.terminal.channel import Terminal

__all__ = ["Terminal"]
