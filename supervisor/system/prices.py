"""What requests to models cost, by the prices of genai-prices (extra `prices`), whose data come with it.

Rules
- A model that it does not know has no price: "unknown", and not 0. So has a usage whose tokens are not known.
- A function of a program's own that fails gives no price either. That is logged once for each model.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from supervisor.core.errors import InvalidInput
from supervisor.core.usage import Usage, checked_usd
from supervisor.system.logs import FactLog

log = FactLog(__name__)

Prices: TypeAlias = Callable[[Usage], float | None]
"""Returns what a usage costs in dollars; None if that is not known."""
_warned: Final[set[str]] = set()


def genai_price(usage: Usage) -> float | None:
    """Return the price of a usage by genai-prices; None without the extra."""
    calc_price = _calculator()
    if calc_price is None or not usage.model or usage.input_tokens is None or usage.output_tokens is None:
        return None
    provider, _, model = usage.model.rpartition("/")
    from genai_prices import Usage as Tokens

    tokens = Tokens(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_input_tokens or 0,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(calc_price(tokens, model, provider_id=provider or None).total_price)
    except (LookupError, ValueError):
        return None


@cache
def _calculator() -> Callable[..., Any] | None:
    try:
        from genai_prices import calc_price
    except ImportError:
        return None
    return calc_price


def priced(usage: Usage, prices: Prices) -> Usage:
    """Return a usage with its price: as it is given, or by `prices`."""
    if usage.usd is not None:
        return usage
    try:
        return replace(usage, usd=checked_usd(prices(usage)))
    except Exception as error:  # noqa: BLE001 # a program's own function: the request was made, and counts all the same
        if usage.model not in _warned:
            _warned.add(usage.model)
            told = str(error) if isinstance(error, InvalidInput) else type(error).__name__
            log.warning("usage.not_priced", model=usage.model, reason=told)
        return usage
