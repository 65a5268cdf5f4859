"""Usage: what requests to a model took, and sums of it.

Rules
- What is not known is None in a `Usage`, and is counted in a `Spent`: "4.10 USD and 3 requests of unknown price". It is
  never 0.
- Dollars have nine decimals. So a sum does not depend on the order, and a store keeps it as an integer.
"""

from collections.abc import Iterable
from datetime import datetime
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

import msgspec

from supervisor.core.errors import InvalidInput

UsageKind: TypeAlias = Literal["agent", "model", "person", "day"]
LARGEST: Final = 10**12
"""The most requests or tokens of one usage."""
LARGEST_USD: Final = 10**5
LONGEST_MODEL_CHARACTERS: Final = 200
DECIMALS: Final = 9
_COUNTED: Final = ("requests", "input_tokens", "cached_input_tokens", "output_tokens")


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one or more requests to a model took. `cached_input_tokens` are a part of `input_tokens`. `usd`: their price
    in dollars; None: by the supervisor's `prices`. A number that is not known is None."""

    model: str = ""
    requests: int | None = 1
    input_tokens: int | None = 0
    cached_input_tokens: int | None = 0
    output_tokens: int | None = 0
    usd: float | None = None


def checked_usage(usage: Any) -> Usage:
    """Return a usage as it is journaled. Raises InvalidInput for what is none."""
    if not isinstance(usage, Usage):
        raise InvalidInput(f"used(...) takes a Usage, not {usage!r:.100}")
    if not isinstance(usage.model, str):
        raise InvalidInput(f"model of a Usage is a text, not {usage.model!r:.40}")
    for name in _COUNTED:
        number = getattr(usage, name)
        if number is None or (type(number) is int and 0 <= number <= LARGEST):
            continue
        raise InvalidInput(f"{name} of a Usage is a whole number from 0 to {LARGEST:.0e}, or None, not {number!r:.40}")
    return msgspec.structs.replace(usage, model=usage.model[:LONGEST_MODEL_CHARACTERS], usd=checked_usd(usage.usd))


def checked_usd(usd: Any) -> float | None:
    """Return a price with as many decimals as are kept. Raises InvalidInput for what is no price."""
    if usd is None:
        return None
    if isinstance(usd, bool) or not hasattr(usd, "__float__") or isinstance(usd, str):
        raise InvalidInput(f"usd of a Usage is a number of dollars, or None, not {usd!r:.40}")
    price = float(usd)
    if not isfinite(price) or not 0 <= price <= LARGEST_USD:
        raise InvalidInput(f"usd of a Usage is from 0 to {LARGEST_USD:,} dollars, or None, not {price!r}")
    return round(price, DECIMALS)


class Spent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A sum of usages. The last three fields count what the sum does not have: requests whose price is not known,
    usages whose tokens are not known, and usages of which it is not known how many requests they were."""

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    uncounted: int = 0
    unnumbered: int = 0

    @property
    def tokens(self) -> int:
        """Return the tokens of input and output."""
        return self.input_tokens + self.output_tokens

    def __bool__(self) -> bool:
        """Whether anything was spent."""
        return self != NOTHING

    def __add__(self, other: "Spent") -> "Spent":
        if other == NOTHING:
            return self
        if self == NOTHING:
            return other
        return Spent(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=round(self.usd + other.usd, DECIMALS),
            unpriced=self.unpriced + other.unpriced,
            uncounted=self.uncounted + other.uncounted,
            unnumbered=self.unnumbered + other.unnumbered,
        )

    def __str__(self) -> str:
        """Say its money in words: "4.10 USD and 3 requests of unknown price"."""
        return money_text(self)


NOTHING: Final = Spent()


class UsagePart(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent by one agent, model, person or day."""

    name: str
    spent: Spent


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent, in parts. `session`: by it and everything below it; None: by all sessions of the store. `since`:
    the first entry that counts; what was before was removed (`prune`)."""

    by: UsageKind
    session: str | None
    since: datetime | None
    total: Spent
    parts: tuple[UsagePart, ...]


def spent_by(usage: Usage) -> Spent:
    """Return the sum of one usage."""
    requests = usage.requests or 0
    return Spent(
        requests=requests,
        input_tokens=usage.input_tokens or 0,
        cached_input_tokens=usage.cached_input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        usd=usage.usd or 0.0,
        unpriced=(requests or 1) if usage.usd is None else 0,
        uncounted=int(usage.input_tokens is None or usage.output_tokens is None),
        unnumbered=int(usage.requests is None),
    )


def sum_of(parts: Iterable[Spent]) -> Spent:
    found = NOTHING
    for part in parts:
        found += part
    return found


def usd_text(usd: float) -> str:
    """Return dollars as people read them: cents, and more digits only for less than a cent."""
    return f"{usd:.2f} USD" if usd >= 0.01 or usd == 0 else f"{usd:.{DECIMALS}f}".rstrip("0") + " USD"  # a cent


def money_text(spent: Spent) -> str:
    """Return the money of a sum, and what is not in it."""
    if not spent.unpriced:
        return usd_text(spent.usd)
    unknown = f"{counted(spent.unpriced, 'request')} of unknown price"
    return f"{usd_text(spent.usd)} and {unknown}" if spent.usd else unknown


def tokens_text(spent: Spent) -> str:
    """Return the tokens of a sum, and what is not in it."""
    cached = f" ({spent.cached_input_tokens:,} of them cached)" if spent.cached_input_tokens else ""
    known = f"{spent.input_tokens:,} tokens in{cached}, {spent.output_tokens:,} out"
    if not spent.uncounted:
        return known
    return f"{known}, and unknown tokens" if spent.tokens else "unknown tokens"


def requests_text(spent: Spent) -> str:
    """Return the requests of a sum, and what is not in it."""
    unknown = "an unknown number of requests"
    if not spent.unnumbered:
        return counted(spent.requests, "request")
    return f"{counted(spent.requests, 'request')} and {unknown}" if spent.requests else unknown


def spent_text(spent: Spent) -> str:
    """Say a sum in one line."""
    if spent == NOTHING:
        return "nothing"
    return f"{money_text(spent)}, {requests_text(spent)}, {tokens_text(spent)}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
