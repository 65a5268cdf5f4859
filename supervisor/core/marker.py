"""The mark that every process started by a supervised call carries in its environment (T4).

A deciding command that finds it in its own environment refuses: what a call runs never counts as a person (A4).
"""

from typing import Final

CALL_MARKER: Final = "SUPERVISOR_CALL"
"""Name of the environment variable; its value is the call's operation id, for people who look."""
