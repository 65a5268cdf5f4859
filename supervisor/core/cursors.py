"""Cursors: instants of one store, which lists hand out and streams go on from. Their users do not look inside.

A cursor is "STORE.POSITION": the store's id and the position of an entry, 0 before the first one. So another store
refuses it, rather than reading it as a position of its own.
"""

import re
from typing import Final

from supervisor.core.errors import CursorUnknown, InvalidInput

_CURSOR: Final = re.compile(r"([a-z0-9]{10})\.(0|[1-9][0-9]{0,18})")


def make_cursor(store: str, position: int) -> str:
    """Name a position of a store, both as the store gives them."""
    return f"{store}.{position}"


def read_cursor(cursor: str, store: str, last: int) -> int:
    """Return the position that a cursor names in a store whose last entry stands at `last`.

    Raises InvalidInput if it is no cursor, CursorUnknown if it is one of another store or from beyond the end.
    """
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidInput(f"{cursor!r:.80} is no cursor: give the `next` or the `cursor` of a page as it was")
    if found[1] != store:
        raise CursorUnknown(f"cursor {cursor} is of another store than this one ({store}): read from the beginning")
    position = int(found[2])
    if position > last:
        raise CursorUnknown(
            f"cursor {cursor} is from beyond the end of this store ({last}), which may be an older copy: "
            "read from the beginning"
        )
    return position
