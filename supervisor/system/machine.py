"""Which machine this is, for stores that several machines share: a pid means a process on one machine only.

Theory: a kernel that runs has a boot id of its own, which its containers share. A host name does not do: two containers
may have the same one.
"""

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final


def _find() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux: the address of a network card
        return f"node {uuid.getnode():012x}"


MACHINE: Final = _find()


def _find_namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 # a text, not a path
    return ""


NAMESPACE: Final = _find_namespace()
"""In which namespace of this machine a pid of ours means this process; empty if the system does not tell."""


def has_ended(pid: int, namespace: str) -> bool:
    """Whether a process of this machine has surely ended. Another one may have its pid, or it may be out of sight."""
    if not namespace or namespace != NAMESPACE:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
