"""Which machine this is, for stores that several machines share: a pid means a process on one machine only.

Theory: a kernel that runs has a boot id of its own, which its containers share. A host name does not do: two containers
may have the same one.
"""

import uuid
from pathlib import Path
from typing import Final


def _find() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux: the address of a network card
        return f"node {uuid.getnode():012x}"


MACHINE: Final = _find()
