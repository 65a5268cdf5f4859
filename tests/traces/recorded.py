"""Spans as a test reads them: an SDK of its own, for this test alone, and what it was given."""

from contextlib import contextmanager
from datetime import UTC, datetime

import opentelemetry.trace
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorded:
    """The spans that were written, in the order of their ends."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def __iter__(self):
        return iter(self._exporter.get_finished_spans())

    def named(self, name):
        """Return the only span with a name."""
        (found,) = [span for span in self if span.name == name]
        return found

    @property
    def names(self):
        return sorted(span.name for span in self)

    @property
    def traces(self):
        return {span.context.trace_id for span in self}

    def above(self, name):
        """Return the names from the parent of a span up to the root; "?" for a parent that was never written."""
        by_id, found, span = {span.context.span_id: span for span in self}, [], self.named(name)
        while span is not None and span.parent is not None:
            span = by_id.get(span.parent.span_id)
            found.append("?" if span is None else span.name)
        return found


@contextmanager
def sdk(*processors):
    """Be a program that has configured the SDK, with these processors and one that records."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    for processor in (*processors, SimpleSpanProcessor(exporter)):
        provider.add_span_processor(processor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: provider)
        yield Recorded(exporter)


def lasted(span):
    return (span.end_time - span.start_time) / 1e9


def at(nanoseconds):
    return datetime.fromtimestamp(nanoseconds / 1e9, tz=UTC)
