"""What of a tree a client reads without a worker: what people are asked, in a search attribute and in the memo, and how
the latest approvals have ended.

It is written together with what the journal says. What does not fit into them is named in the memo by its id.
"""

from typing import Any, Final

import msgspec
from temporalio import workflow
from temporalio.common import SearchAttributeKey

from supervisor.core.encoding import to_json
from supervisor.core.values import Approval
from supervisor.seam.store import Store
from supervisor.temporal.searched import STATUS_KEY
from supervisor.temporal.wire import MEMO, MEMO_LARGEST_BYTES, PENDING, SEARCHED_LARGEST_BYTES, mark_of
from supervisor.temporal.workflow.claims import claim_withdrawn

_DEFAULTS: Final = {
    field.name: msgspec.to_builtins(field.default)
    for field in msgspec.structs.fields(Approval)
    if field.default is not msgspec.NODEFAULT
}
"""What a client fills in: a field with its default takes no room in the memo."""
ENDS_SHOWN: Final = 20
"""How many of the approvals that ended last are in the memo."""
PENDING_KEY: Final = SearchAttributeKey.for_keyword_list(PENDING)


class Shown:
    """The approvals and questions of a tree that are shown now: at first those of the workflow before, if there was
    one."""

    def __init__(self, store: Store, *, has_attributes: bool) -> None:
        self._store = store
        self._has_attributes = has_attributes
        self._ended: list[Any] = workflow.memo_value(MEMO, {}).get("ended", [])
        self._ids = [each.id for each in store.find_approvals(limit=None)]

    async def claim_withdrawn(self) -> None:
        """Claim what was shown and has been withdrawn since."""
        gone = [found for each in self._ids if (found := self._store.get_approval(each)) is not None]
        await claim_withdrawn(gone)

    def show(self) -> None:
        """Write what people are asked, if it has changed."""
        pending = self._store.find_approvals(limit=None)
        ids = [each.id for each in pending]
        if ids == self._ids:
            return
        gone = [self._store.get_approval(each) for each in self._ids if each not in ids]
        self._ended = [*self._ended, *(end_of(each) for each in gone if each is not None)][-ENDS_SHOWN:]
        self._ids = ids
        workflow.upsert_memo({MEMO: {**memo_of(pending), "ended": self._ended}})
        status = [STATUS_KEY.value_set("waiting" if ids else "active")] if self._has_attributes else []
        workflow.upsert_search_attributes([PENDING_KEY.value_set(searched(ids)), *status])

    def show_end(self, kind: str) -> None:
        """Write how the root's run has ended, if it has not succeeded."""
        if self._has_attributes and kind != "succeeded":
            workflow.upsert_search_attributes([STATUS_KEY.value_set(kind)])


def end_of(ended: Approval) -> Any:
    """Return how an approval has ended, for a decision that comes later."""
    same = "" if ended.edited or ended.until else mark_of(ended.decision, ended.scope, ended.pattern, ended.answer)
    at = None if ended.decided_at is None else ended.decided_at.isoformat()
    return {"id": ended.id, "status": ended.status, "by": ended.by, "at": at, "rule": ended.rule, "same": same}


def searched(ids: list[str]) -> list[str]:
    """Return the oldest ids of what is pending, as many as fit into a search attribute. The memo has all of them."""
    size, found = len("[]"), list[str]()
    for each in ids:
        size += len(f'"{each}",')
        if size > SEARCHED_LARGEST_BYTES:
            break
        found.append(each)
    return found


def memo_of(pending: list[Approval]) -> Any:
    """Return the memo of a tree: what is pending, oldest first, as far as it fits, and the ids of the others."""
    whole, left_out, size = list[Any](), list[str](), 0
    for each in pending:
        document = {
            name: value
            for name, value in msgspec.to_builtins(each).items()
            if name not in _DEFAULTS or value != _DEFAULTS[name]
        }
        size += len(to_json(document, "an approval"))
        if size > MEMO_LARGEST_BYTES:
            left_out.append(each.id)
        else:
            whole.append(document)
    return {"pending": whole, "left_out": left_out}
