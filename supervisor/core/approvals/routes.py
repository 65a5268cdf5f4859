"""Routes: where people are asked, and where they are only told, by agent and tool. Pure.

Rules
- The first route that fits an approval counts. Without one, the approval goes to the first channel that takes it (A11).
- A target is "CHANNEL", "CHANNEL:PLACE", or "CHANNEL:@approvers": a direct message to each person who may decide.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from supervisor.core.errors import InvalidInput
from supervisor.core.values import Approval

APPROVERS: Final = "@approvers"
"""The place that stands for a direct message to each person who may decide the approval."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where approvals are shown: each target in `ask` gets a card, each in `notify` a link without buttons.

    `agent`: only what this agent and all below it ask; `tool`: only calls of this tool. Without targets in `ask`, the
    first channel that takes the approval asks. Raises InvalidInput for a route without targets.
    """

    agent: str | None = None
    tool: str | None = None
    ask: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.ask or self.notify):
            raise InvalidInput('a route needs targets: ask = ["CHANNEL", "CHANNEL:PLACE"], or notify = ["CHANNEL"]')

    def meets(self, approval: Approval) -> bool:
        """Return whether the route fits an approval."""
        return self.agent in (None, *approval.path) and self.tool in (None, approval.tool)


def find_route(routes: Iterable[Route], approval: Approval) -> Route | None:
    """Return the route of an approval; None if none fits."""
    return next((route for route in routes if route.meets(approval)), None)


def split_target(target: str) -> tuple[str, str]:
    """Return the channel and the place of a target; the place is "" if it names none."""
    channel, _, place = target.partition(":")
    return channel, place
