"""What a command says of a store whose server goes away: once, that it waits and for how long; and in its last line,
that this was in vain."""

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supervisor.seam.store import Store


def store_of_command(url: str, *, create: bool, runs: bool) -> "Store":
    """Return a store on PostgreSQL, not open. `runs`: whether the command runs agents, and so waits for its server as a
    program does, and not only as long as for one that it opens. Raises InvalidInput."""
    from supervisor.wiring.app import make_postgres

    store = make_postgres(url, create=create)
    store.tell = _say
    if not runs:
        store.gone_seconds = store.moment_seconds = store.coming_seconds
    logging.getLogger("supervisor.runtime.journal.writer").addFilter(_is_no_end)  # the last line of the command says it
    return store


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _is_no_end(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("store.died ")
