"""The mark in the environment of every process that a supervised call starts (T4).

A deciding command that finds the mark in its environment refuses: a process of a call never counts as a person (A4).
"""

from typing import Final

CALL_MARKER: Final = "SUPERVISOR_CALL"
"""Name of the environment variable; its value is the call's operation id, for people who look."""
