"""The search attributes of a tree: those that we need, and those by which people find it in Temporal's own pages.

Rules
- Agent, status and requester are in the namespace where it allows them, and a tree has all of them or none. Its start
  says which. A workflow that sets one that the namespace lacks would stand still.
- Status is active, waiting while people are asked, or how a run has ended that has not succeeded. It is written with
  what people are asked, and so takes no event of its own, except at such an end.
- Temporal encrypts no search attribute. So a tree has none of the three where a codec hides what it holds.
"""

from collections.abc import Mapping
from typing import Final

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from supervisor.core.ids import approval_route
from supervisor.temporal.wire import AGENT, REQUESTER, ROUTE, STATUS, Start

STATUS_KEY: Final = SearchAttributeKey.for_keyword(STATUS)
LONGEST_CHARACTERS: Final = 250
"""Characters of a name. A database of a server keeps 255."""


def attributes_of(start: Start) -> TypedSearchAttributes:
    """Return those with which a tree starts."""
    return _keywords({ROUTE: approval_route(start.session), **_told(start, "active")})


def attributes_of_schedule(start: Start) -> TypedSearchAttributes:
    """Return those of a schedule of Temporal. A namespace that takes them takes those of its trees, too."""
    return _keywords(_told(start, "scheduled"))


def _told(start: Start, status: str) -> dict[str, str]:
    return {AGENT: start.agent, STATUS: status, REQUESTER: start.requester} if start.has_attributes else {}


def _keywords(named: Mapping[str, str]) -> TypedSearchAttributes:
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(name), value[:LONGEST_CHARACTERS])
            for name, value in named.items()
        ]
    )
