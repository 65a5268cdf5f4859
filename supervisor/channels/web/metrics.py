"""Metrics in Prometheus' text format: open sessions, waiting approvals and their age, decisions, channels, clients.

Gauges are read from the store's index at each request; counters count from the start of this process.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Final

from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoint
from supervisor.chronicle import Chronicle

MEDIA_TYPE: Final = "text/plain; version=0.0.4"


async def show_metrics(call: Call) -> Response:
    counts, tally = await call.supervisor.get_counts(), call.site.tally
    since = counts.oldest_pending_at
    waited = (datetime.now(UTC) - since).total_seconds() if since is not None else 0.0
    requests = {
        f'method="{method}",status="{status}"': count for (method, status), count in sorted(tally.requests.items())
    }
    decisions = {f'result="{kind}"': count for kind, count in sorted(call.supervisor.decided.items())}
    up = {f'channel="{each.name}"': float(each.down is None) for each in call.site.channels}
    failed = {f'channel="{name}"': count for name, count in sorted(call.supervisor.cards_failed.items())}
    version = f'version="{metadata.version("subagent-supervisor")}"'
    lines = [
        *_family("supervisor_info", "gauge", "This program.", {version: 1}),
        *_family("supervisor_sessions", "gauge", "Sessions in the store.", {"": counts.sessions}),
        *_family("supervisor_sessions_open", "gauge", "Sessions that have not ended.", {"": counts.open_sessions}),
        *_family(
            "supervisor_sessions_blocked",
            "gauge",
            "Sessions whose code does not follow their journal.",
            {"": counts.blocked_sessions},
        ),
        *_family(
            "supervisor_approvals_pending", "gauge", "Approvals that wait for a person.", {"": counts.pending_approvals}
        ),
        *_family("supervisor_approval_oldest_seconds", "gauge", "Age of the oldest pending approval.", {"": waited}),
        *_family("supervisor_event_streams", "gauge", "Open event streams.", {"": call.site.streams.count}),
        *_family(
            "supervisor_decisions_total",
            "counter",
            "Decisions made in this process, by result.",
            decisions,
        ),
        *_family("supervisor_channel_up", "gauge", "Whether people can be reached on a channel.", up),
        *_family("supervisor_cards_failed_total", "counter", "Cards that could not be shown.", failed),
        *_ended(call.site.chronicle),
        *_family("supervisor_http_requests_total", "counter", "Requests answered.", requests),
    ]
    return Response("\n".join([*lines, ""]), media_type=MEDIA_TYPE)


def _ended(chronicle: Chronicle | None) -> Iterator[str]:
    """Yield what has ended since the start, by how it ended: all labels are words of the journal's own sets."""
    if chronicle is None:
        return
    for name, label, about, found in (
        ("runs", "outcome", "Runs that ended", chronicle.runs),
        ("calls", "result", "Calls that have a result", chronicle.calls),
        ("approvals", "decision", "Approvals and questions that people decided", chronicle.approvals),
    ):
        ended = {f'{label}="{how}"': count for how, count in sorted(found.ended.items())}
        yield from _family(f"supervisor_{name}_total", "counter", f"{about}.", ended)
        family = f"supervisor_{name}_seconds"
        yield f"# HELP {family} {about}, whose beginning this process saw: how long they took."
        yield f"# TYPE {family} summary"
        for how, count in sorted(found.measured.items()):
            yield f'{family}_sum{{{label}="{how}"}} {found.seconds[how]:g}'
            yield f'{family}_count{{{label}="{how}"}} {count}'


def _family(name: str, kind: str, about: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value:g}" if labels else f"{name} {value:g}"


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/metrics",
        name="metrics",
        summary="Metrics for Prometheus",
        handle=show_metrics,
        answers={200: str},
        need="scraper",
        media_type=MEDIA_TYPE,
    ),
)
