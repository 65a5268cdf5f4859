"""Cursors: instants of one store. Lists return them, and streams go on from them; their users do not look inside.

A cursor is "STORE.POSITION": the store's id and the position of an entry, 0 before the first one. Another store
therefore refuses it, instead of reading it as a position of its own.
"""

import re
from typing import Final

from supervisor.core.errors import CursorUnknown, InvalidInput

_CURSOR: Final = re.compile(r"([a-z0-9]{10})\.(0|[1-9][0-9]{0,18})")


def make_cursor(store: str, position: int) -> str:
    """Return the cursor for a position of a store."""
    return f"{store}.{position}"


def cursor_at(cursor: str, position: int) -> str:
    """Return the cursor of another position of the same store."""
    return make_cursor(cursor.partition(".")[0], position)


def read_cursor(cursor: str, store: str, last: int) -> int:
    """Return the position that a cursor names in a store whose last entry is at `last`.

    Raises InvalidInput for a text that is not a cursor, CursorUnknown for a cursor of another store or beyond the end.
    """
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidInput(f"{cursor!r:.80} is not a cursor: pass the `next` or the `cursor` of a page unchanged")
    if found[1] != store:
        raise CursorUnknown(
            f"cursor {cursor} belongs to another store than this one ({store}): read from the beginning"
        )
    position = int(found[2])
    if position > last:
        raise CursorUnknown(
            f"cursor {cursor} is beyond the end of this store ({last}), which may be an older copy: "
            "read from the beginning"
        )
    return position
