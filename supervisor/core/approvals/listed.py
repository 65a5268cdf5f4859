"""A list of calls that a person was shown, named by one digest, so that exactly these can be decided later (A16).

    38-1b4f...    of how many calls the list was made, ended ones too, and a digest of those that waited

Theory: a digest alone cannot name calls. But calls are listed in the order in which they were asked, so the number says
which of them came later. Of the others, those that wait still were on the list, and of those that have ended, the
latest ones. So the list is found again although some of its calls were decided meanwhile.

Rules
- The digest is of each call's id, tool, folder and canonical arguments.
- A list that is not found again is not guessed.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from supervisor.core.ids import canonical_json
from supervisor.core.values import Approval

MOST_ENDED: Final = 1000
"""The most calls of a list that may have ended since it was read."""


def name_of_list(calls: Sequence[Approval]) -> str:
    """Return the name of the list of those calls that wait. `calls`: all that were asked, oldest first."""
    return _name(len(calls), [each for each in calls if each.status == "pending"])


def find_listed(calls: Sequence[Approval], name: str) -> list[Approval] | None:
    """Return the calls on a list, by its name; None if it cannot be found. `calls`: all that were asked by now."""
    number = name.partition("-")[0]
    first = calls[: int(number)] if number.isascii() and number.isdecimal() and len(number) < 10 else ()
    ended = sorted((each.decided_at, each.id) for each in first if each.decided_at is not None)[-MOST_ENDED:]
    on_list = {each.id for each in first if each.status == "pending"}
    for latest in (None, *reversed(ended)):
        if latest is not None:
            on_list.add(latest[1])
        listed = [each for each in first if each.id in on_list]
        if _name(len(first), listed) == name:
            return listed
    return None


def _name(number: int, waiting: Sequence[Approval]) -> str:
    said = [(each.id, each.tool, each.cwd, each.digest) for each in waiting]
    return f"{number}-{hashlib.sha256(canonical_json(said)).hexdigest()[:40]}"
