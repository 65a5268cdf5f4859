"""Metrics in Prometheus' text format: open sessions, waiting approvals and their age, decisions, channels, clients.

Gauges are read from the store's index at each request; counters count from the start of this process. On Temporal those
of temporalio follow.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Final, Literal, NamedTuple

from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoints
from supervisor.system.chronicle import Chronicle

MEDIA_TYPE: Final = "text/plain; version=0.0.4"


class Family(NamedTuple):
    """A metric: its name, its kind in Prometheus' words, what it says, and the labels of its values."""

    name: str
    kind: Literal["gauge", "counter", "summary"]
    about: str
    labels: tuple[str, ...] = ()


def _ending(name: str, label: str, about: str) -> tuple[Family, Family]:
    """What ends, by how it ends: how often, and how long it took."""
    seconds = f"{about}, whose beginning this process saw: how long they took."
    return (
        Family(f"supervisor_{name}_total", "counter", f"{about}.", (label,)),
        Family(f"supervisor_{name}_seconds", "summary", seconds, (label,)),
    )


FAMILIES: Final = (
    Family("supervisor_info", "gauge", "This program.", ("version",)),
    Family("supervisor_sessions", "gauge", "Sessions in the store."),
    Family("supervisor_sessions_open", "gauge", "Sessions that have not ended."),
    Family("supervisor_sessions_blocked", "gauge", "Sessions whose code does not follow their journal."),
    Family("supervisor_approvals_pending", "gauge", "Approvals that wait for a person."),
    Family("supervisor_approval_oldest_seconds", "gauge", "Age of the oldest pending approval."),
    Family("supervisor_event_streams", "gauge", "Open event streams."),
    Family("supervisor_decisions_total", "counter", "Decisions made in this process, by result.", ("result",)),
    Family("supervisor_channel_up", "gauge", "Whether people can be reached on a channel.", ("channel",)),
    Family("supervisor_cards_failed_total", "counter", "Cards that could not be shown.", ("channel",)),
    Family("supervisor_functions_left", "gauge", "Functions that still run although their call or step has ended."),
    *_ending("runs", "outcome", "Runs that ended"),
    *_ending("calls", "result", "Calls that have a result"),
    *_ending("approvals", "decision", "Approvals and questions that people decided"),
    Family("supervisor_model_requests_total", "counter", "Requests to models that were journaled."),
    Family("supervisor_model_tokens_total", "counter", "Tokens of these, as far as they are known.", ("kind",)),
    Family("supervisor_model_usd_total", "counter", "Dollars of these, as far as prices are known."),
    Family("supervisor_model_unpriced_total", "counter", "Those of these requests whose price is not known."),
    Family("supervisor_http_requests_total", "counter", "Requests answered.", ("method", "status")),
)
"""Every metric. A label has words of a fixed set, or the names of the configured channels."""


ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /metrics", {200: str}, need="scraper", media_type=MEDIA_TYPE)
async def metrics(call: Call) -> Response:
    """Metrics for Prometheus."""
    counts, tally = await call.supervisor.get_counts(), call.site.tally
    since = counts.oldest_pending_at
    waited = (datetime.now(UTC) - since).total_seconds() if since is not None else 0.0
    values: dict[str, Mapping[str, float]] = {
        "info": {_labels(version=metadata.version("subagent-supervisor")): 1},
        "sessions": {"": counts.sessions},
        "sessions_open": {"": counts.open_sessions},
        "sessions_blocked": {"": counts.blocked_sessions},
        "approvals_pending": {"": counts.pending_approvals},
        "approval_oldest_seconds": {"": waited},
        "event_streams": {"": call.site.streams.count},
        "decisions_total": {_labels(result=kind): n for kind, n in sorted(call.supervisor.decided.items())},
        "channel_up": {_labels(channel=each.name): not (each.down or each.failing) for each in call.site.channels},
        "cards_failed_total": {_labels(channel=name): n for name, n in sorted(call.supervisor.cards_failed.items())},
        "functions_left": {"": call.supervisor.functions_left},
        **_ended(call.site.chronicle),
        **_spent(call.site.chronicle),
        "http_requests_total": {
            _labels(method=method, status=status): n for (method, status), n in sorted(tally.requests.items())
        },
    }
    return Response("\n".join([*_written(values), *call.supervisor.other_metrics, ""]), media_type=MEDIA_TYPE)


def _ended(chronicle: Chronicle | None) -> dict[str, Mapping[str, float]]:
    """Return what has ended since the start, by how it ended: all labels are words of the journal's own sets."""
    values = dict[str, Mapping[str, float]]()
    if chronicle is not None:
        for name, label, found in (
            ("runs", "outcome", chronicle.runs),
            ("calls", "result", chronicle.calls),
            ("approvals", "decision", chronicle.approvals),
        ):
            values[f"{name}_total"] = {_labels(**{label: how}): n for how, n in sorted(found.ended.items())}
            values[f"{name}_seconds"] = {
                key + _labels(**{label: how}): value
                for how, n in sorted(found.measured.items())
                for key, value in (("_sum", found.seconds[how]), ("_count", float(n)))
            }
    return values


def _spent(chronicle: Chronicle | None) -> dict[str, Mapping[str, float]]:
    if chronicle is None:
        return {}
    spent = chronicle.spent
    tokens = {"input": spent.input_tokens, "cached_input": spent.cached_input_tokens, "output": spent.output_tokens}
    return {
        "model_requests_total": {"": spent.requests},
        "model_tokens_total": {_labels(kind=kind): number for kind, number in tokens.items()},
        "model_usd_total": {"": spent.usd},
        "model_unpriced_total": {"": spent.unpriced},
    }


def _labels(**labels: object) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _written(values: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the lines of each metric that has values, which are given by what follows its name."""
    for family in FAMILIES:
        if (found := values.get(family.name.removeprefix("supervisor_"))) is not None:
            yield f"# HELP {family.name} {family.about}"
            yield f"# TYPE {family.name} {family.kind}"
            yield from (f"{family.name}{key} {value:.12g}" for key, value in found.items())
