"""What every event is: a fact with its instant. The events themselves are in core/events.py and core/asking.py."""

from datetime import datetime

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True, omit_defaults=True, gc=False):
    """A journaled fact. It refers to nothing that could refer to it, so that the garbage collector need not look at
    what there are most of."""

    at: datetime

    def __repr__(self) -> str:
        """Without raw JSON: what agents, tools and people wrote has no place in logs and error messages."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (f"{name}={value!r}" for name, value in fields if not isinstance(value, msgspec.Raw))
        return f"{type(self).__name__}({', '.join(shown)})"
