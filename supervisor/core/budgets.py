"""Budgets: how much a tree of runs, or a run with everything below it, may spend before a person is asked.

Rules
- A limit that is None bounds nothing. `requests` and `calls` are kept exactly. Tokens and dollars are known when a
  request has ended, so what is in flight may exceed its reservations.
- A raise never lowers a limit: the larger of the configured and the raised one holds.
- A request of unknown price or tokens is in no sum of dollars or tokens. People are told so (BudgetNoticed).
"""

from collections.abc import Iterator, Mapping
from math import ceil, isfinite
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from supervisor.core.errors import InvalidInput
from supervisor.core.usage import DECIMALS, LARGEST, LARGEST_USD, NOTHING, Spent, Usage, counted, usd_text

Scope: TypeAlias = Literal["tree", "run"]
"""Of a root session, all its turns with everything below it; or one run with everything below it."""
KINDS: Final = ("usd", "tokens", "requests", "calls")
TOOL: Final = "supervisor.budget"
"""Stands for a tool where a person is asked to raise a budget. No tool has this name, and no rule covers it."""
KEY: Final = "budget:"
"""Begins the key under which a run waits for a decision about a budget (RunPassivated.waiting_for)."""
IN_FLIGHT: Final = "in flight"
"""The key under which a run waits for what is in flight under its budgets. Nothing in a journal answers it."""
ASIDE: Final = "aside:"
"""Begins the ids of questions that no agent asked: they are no operations of its run. No kind of operation has this
name, and no branch has a colon."""
NOTICED_AT: Final = 0.8
"""The part of a limit at which people are told."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The most that may be spent: dollars, tokens (of input and output), requests to models, and calls of tools. None:
    no limit. `on_exhausted`: "ask" a person whether to raise it, or "end" the run whose budget it is (B2)."""

    usd: float | None = None
    tokens: int | None = None
    requests: int | None = None
    calls: int | None = None
    on_exhausted: Literal["ask", "end"] = "ask"

    def __post_init__(self) -> None:
        """Raise InvalidInput for what is no limit."""
        for kind in KINDS:
            limit = getattr(self, kind)
            largest, types = (LARGEST_USD, (int, float)) if kind == "usd" else (LARGEST, (int,))
            if limit is None or (type(limit) in types and isfinite(limit) and 0 <= limit <= largest):
                continue
            number = "a number" if kind == "usd" else "a whole number"
            raise InvalidInput(f"{kind} of a Budget is {number} from 0 to {largest:,}, or None, not {limit!r:.40}")
        if self.on_exhausted not in ("ask", "end"):
            raise InvalidInput(f"on_exhausted of a Budget is 'ask' or 'end', not {self.on_exhausted!r:.40}")

    @property
    def limits(self) -> dict[str, float]:
        """Return the limits that there are, by their names."""
        return {kind: limit for kind in KINDS if (limit := getattr(self, kind)) is not None}


def checked_budget(budget: Any, whose: str) -> Budget | None:
    """Return a budget; raises TypeError for what is none."""
    if not (budget is None or isinstance(budget, Budget)):
        raise TypeError(f"{whose}: budget is a Budget, not {budget!r:.100}: write Budget(usd=5)")
    return budget


class Used(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An amount of each kind."""

    usd: float = 0.0
    tokens: int = 0
    requests: int = 0
    calls: int = 0

    def __add__(self, other: "Used") -> "Used":
        return Used(
            usd=round(self.usd + other.usd, DECIMALS),
            tokens=self.tokens + other.tokens,
            requests=self.requests + other.requests,
            calls=self.calls + other.calls,
        )

    def __sub__(self, other: "Used") -> "Used":
        return self + Used(usd=-other.usd, tokens=-other.tokens, requests=-other.requests, calls=-other.calls)


A_CALL: Final = Used(calls=1)
ASKING_CALL: Final = Used(calls=1, requests=1)
"""A call that asks a model: it takes as much as the largest request so far."""


def used_by(spent: Spent) -> Used:
    return Used(usd=spent.usd, tokens=spent.tokens, requests=spent.requests)


def used_in(usage: Usage) -> Used:
    """Return what a reservation for a request reserves."""
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return Used(usd=usage.usd or 0.0, tokens=tokens, requests=usage.requests or 0)


def exceeded(budget: Budget, used: Used) -> Iterator[str]:
    """Yield the kinds of which more is used than the budget allows."""
    for kind, limit in budget.limits.items():
        if round(getattr(used, kind) - limit, DECIMALS) > 0:
            yield kind


def raised(budget: Budget, by: Mapping[str, float]) -> Budget:
    """Return a budget with larger limits, as far as they are larger, and as far as the budget has limits."""
    return replace(budget, **{kind: max(limit, by.get(kind, 0)) for kind, limit in budget.limits.items()})


def proposed(budget: Budget, base: Budget, used: Used) -> dict[str, float]:
    """Return the limits that a person is asked for: those of the configuration again on top, as often as it takes for
    what is used, and for the first that waits."""
    found = dict[str, float]()
    for kind, limit in budget.limits.items():
        step, now = base.limits.get(kind) or limit or 1, getattr(used, kind)
        times = max(1, ceil(round((now - limit) / step, DECIMALS)))
        found[kind] = round(limit + step * times, DECIMALS) if kind == "usd" else int(limit + step * times)
    return found


def limit_text(kind: str, limit: float) -> str:
    return usd_text(limit) if kind == "usd" else f"{int(limit):,} {kind}"


def budget_text(limits: Mapping[str, float]) -> str:
    """Say limits in words: "5.00 USD, 200 requests"."""
    return ", ".join(limit_text(kind, limits[kind]) for kind in KINDS if kind in limits) or "no limits"


def used_text(budget: Budget, used: Used, spent: Spent = NOTHING) -> str:
    """Say what of a budget is used: "5.02 of 5.00 USD and 3 requests of unknown price, 180 of 200 requests". `spent`:
    what is not in its sums is counted there."""
    price = f" and {counted(spent.unpriced, 'request')} of unknown price" if spent.unpriced else ""
    beyond = {"usd": price, "tokens": " and unknown tokens" if spent.uncounted else ""}
    return ", ".join(
        (
            f"{getattr(used, kind):.2f} of {usd_text(limit)}"
            if kind == "usd"
            else f"{getattr(used, kind):,} of {limit:,} {kind}"
        )
        + beyond.get(kind, "")
        for kind, limit in budget.limits.items()
    )


def read_budget(text: str) -> Budget:
    """Return the budget that a text such as "usd=5,requests=200" names. Raises InvalidInput."""
    found = dict[str, Any]()
    for part in filter(None, (each.strip() for each in text.split(","))):
        kind, sign, value = (word.strip() for word in part.partition("="))
        if not sign or kind not in (*KINDS, "on_exhausted") or kind in found:
            raise InvalidInput(
                f"{part!r} is no limit: write KIND=NUMBER, each kind once, with the kinds {', '.join(KINDS)}, as in "
                "usd=5,requests=200; on_exhausted=end asks no person"
            )
        try:
            found[kind] = (
                value if kind == "on_exhausted" else float(value) if kind == "usd" else int(value.replace("_", ""))
            )
        except ValueError:
            raise InvalidInput(f"{value!r} is no number of {kind}") from None
    budget = Budget(**found)
    if not budget.limits:
        raise InvalidInput(f"a budget has a limit of {', '.join(KINDS[:-1])} or {KINDS[-1]}, as in usd=5,requests=200")
    return budget


def key_of(session: str, scope: Scope) -> str:
    return f"{KEY}{session}:{scope}"


def is_aside(operation: str) -> bool:
    """Whether a record is no operation of the agent."""
    return operation.startswith(ASIDE)


def aside_of(scope: Scope, number: int) -> str:
    """Return the id of a budget's question."""
    return f"{ASIDE}{scope}#{number}"


def scope_of(aside: str) -> Scope:
    return "tree" if aside.startswith(f"{ASIDE}tree#") else "run"
