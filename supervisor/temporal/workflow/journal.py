"""The journal of a tree, in the memory of its workflow: clients ask for its entries, page by page."""

from supervisor.core.events import encode_event
from supervisor.store.memory import MemoryStore
from supervisor.temporal.carry import unpack
from supervisor.temporal.wire import PAGE_BYTES, Carried, Entries


class TreeStore(MemoryStore):
    """The journal of a tree. It outlives every worker, since Temporal makes it again."""

    is_durable = True
    name = "this Temporal namespace"

    def __init__(self, carried: Carried | None = None) -> None:
        super().__init__()
        self._carried = carried
        if carried is not None:
            self.begin()
            self.write(unpack(carried.journal))
            self.commit()
            self._last = carried.last

    def since(self, after: int, *, is_all_there_is: bool = False) -> Entries:
        """Return entries after a position, as many as one answer holds. `is_all_there_is`: those that were carried,
        too, where the workflow before cannot be asked."""
        rows, size = list[tuple[int, str, str]](), 0
        carried = None if is_all_there_is else self._carried
        if carried is not None and carried.earlier is not None and after < carried.last:
            return Entries(rows=rows, last=self.last_position(), earlier=carried.earlier)
        for row in self.rows(after):
            body = encode_event(row.event).decode()
            size += len(body)
            if rows and size > PAGE_BYTES:
                break
            rows.append((row.position, row.session, body))
        return Entries(rows=rows, last=self.last_position())
