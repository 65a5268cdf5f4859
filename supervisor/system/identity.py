"""The user for whom this process works, its host and its folders: recorded with what it starts and decides."""

import getpass
import os
import socket
import stat
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Final

from supervisor.core.calls.folders import folder_of_call
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput
from supervisor.core.events import AttemptStarted
from supervisor.system.machine import MACHINE

HOST: Final = socket.gethostname()


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116 # a text, not a path
    except OSError:
        return ""


AMONG_MACHINES: Final = f"{HOST}/{sha256(f'{MACHINE} {_namespace()} {HOST}'.encode()).hexdigest()[:8]}"
"""What a journal that machines share calls this one: a pid is that of a process in one system of pids only, and two
containers may have one host name."""


def host_of(*, is_shared: bool) -> str:
    """Return what the journals of a store call this machine."""
    return AMONG_MACHINES if is_shared else HOST


def is_here(host: str) -> bool:
    """Return whether a journal means this machine, so that its pids say something."""
    return host in (HOST, AMONG_MACHINES)


def is_elsewhere(host: str) -> bool:
    """Return whether a journal that machines share means another one. (A store of one machine says only a host name,
    which may change at each start of a container.)"""
    return "/" in host and host != AMONG_MACHINES


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


def find_folder(named: str, base: str) -> str:
    """Return the absolute path of a folder, without links; a relative path is below `base`. Raises InvalidInput."""
    path = folder_of_call(base, named)
    if not path.startswith("/"):
        raise InvalidInput(f"the folder {named!r} is relative to one that is not known; write an absolute path")
    try:
        found = os.path.realpath(path, strict=True)
        is_folder = bool(named) and stat.S_ISDIR(os.stat(found).st_mode)  # noqa: PTH116 # texts, as in a journal
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{printable_text(path)!r} cannot be the folder of a session: {why}") from None
    if not is_folder:
        raise InvalidInput(f"{printable_text(path)!r} cannot be the folder of a session: it is not a folder")
    return found


def attempt_started(version: str, now: datetime) -> AttemptStarted:
    """Return the entry with which an attempt of this process begins."""
    return AttemptStarted(at=now, host=HOST, pid=os.getpid(), version=version)
