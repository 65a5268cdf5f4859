"""The user for whom this process works, and its host: recorded with what it starts and decides."""

import getpass
import os
import socket
from datetime import datetime
from functools import cache
from typing import Final

from supervisor.core.events import AttemptStarted

HOST: Final = socket.gethostname()


@cache  # the user database is as slow as journaling a session
def current_user() -> str:
    """Return the login name, for the audit trail: each user who can write the store is its operator (A4)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 # we record a string; a Path costs ten times as much
    except FileNotFoundError:
        return "(a folder that is gone)"


def attempt_started(version: str, now: datetime) -> AttemptStarted:
    """Return the entry with which an attempt of this process begins."""
    return AttemptStarted(at=now, host=HOST, pid=os.getpid(), version=version)
