"""What every event is: a fact with its instant. The events themselves are in core/events.py and core/asking.py."""

from datetime import datetime

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True, omit_defaults=True, gc=False):
    """A journaled fact. It refers to nothing that could refer to it, so that the garbage collector need not look at
    what there are most of."""

    at: datetime
