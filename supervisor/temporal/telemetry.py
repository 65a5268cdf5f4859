"""What temporalio says of itself in this process: its log lines go to ours, and its metrics to our pages.

Rules
- Its default runtime prints log lines to standard output, which belongs to a command's JSON document. Ours gives them
  to the standard library's logging, as `temporalio`.
- Metrics are kept only where something shows them: by `serve`, and by a worker with probes. They wait in a buffer of
  temporalio and are taken out every second, since a full one loses some.
- A histogram of temporalio is a summary here: how often, and how long or how large in all.
"""

import logging
from collections.abc import Iterator
from functools import cache
from typing import Final

import anyio
from temporalio.runtime import (
    BUFFERED_METRIC_KIND_COUNTER,
    BUFFERED_METRIC_KIND_HISTOGRAM,
    LogForwardingConfig,
    LoggingConfig,
    MetricBuffer,
    MetricBufferDurationFormat,
    Runtime,
    TelemetryConfig,
)

TAKEN_SECONDS: Final = 1.0
"""Seconds between two looks into the buffer."""
MOST_UPDATES: Final = 100_000
"""The updates that the buffer holds. A call takes about 40."""


@cache
def plain_runtime() -> Runtime:
    """Return the runtime of temporalio for this process, without metrics."""
    return _runtime(None)


def _runtime(metrics: MetricBuffer | None) -> Runtime:
    forwarding = LogForwardingConfig(logging.getLogger("temporalio"))
    lines = LoggingConfig(filter=LoggingConfig.default.filter, forwarding=forwarding)
    return Runtime(telemetry=TelemetryConfig(logging=lines, metrics=metrics))


class _Family:
    """A metric: its kind in Prometheus' words, what it says, and its values by their labels."""

    def __init__(self, kind: str, about: str) -> None:
        self.kind = kind
        self.about = about
        self.values: dict[str, float] = {}


class Metrics:
    """The metrics of temporalio in this process. Connect with `runtime`, and run `keep`."""

    def __init__(self) -> None:
        self._buffer = MetricBuffer(MOST_UPDATES, MetricBufferDurationFormat.SECONDS)
        self._families: dict[str, _Family] = {}
        self.runtime = _runtime(self._buffer)

    async def keep(self) -> None:
        """Take the metrics out of the buffer, until cancelled."""
        while True:
            self.take()
            await anyio.sleep(TAKEN_SECONDS)

    def take(self) -> None:
        for update in self._buffer.retrieve_updates():
            metric, value = update.metric, update.value
            labels = ",".join(f'{name}="{_escaped(str(each))}"' for name, each in sorted(update.attributes.items()))
            key = f"{{{labels}}}" if labels else ""
            is_summary = metric.kind == BUFFERED_METRIC_KIND_HISTOGRAM
            is_counter = metric.kind == BUFFERED_METRIC_KIND_COUNTER
            if (family := self._families.get(metric.name)) is None:
                kind = "summary" if is_summary else "counter" if is_counter else "gauge"
                family = self._families[metric.name] = _Family(kind, metric.description or metric.name)
            if is_summary:
                family.values[f"_sum{key}"] = family.values.get(f"_sum{key}", 0.0) + value
                family.values[f"_count{key}"] = family.values.get(f"_count{key}", 0.0) + 1
            else:
                family.values[key] = value + (family.values.get(key, 0.0) if is_counter else 0.0)

    def lines(self) -> Iterator[str]:
        """Yield all of them in the text format of Prometheus."""
        self.take()
        for name, family in sorted(self._families.items()):
            yield f"# HELP {name} {family.about}"
            yield f"# TYPE {name} {family.kind}"
            yield from (f"{name}{key} {value:.12g}" for key, value in sorted(family.values.items()))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
