"""The writer of spans: it hears the entries of every commit, and encloses the attempts and bodies of this process.

    start NAME            written at once, when a session is created; its context is journaled (SessionCreated)
    ├ invoke_agent NAME   a run, written when it ends, by the process in which it ends
    ├ wait KIND           written when it ends
    ├ start NAME          of a sub-agent
    └ attempt NAME        open while the attempt is in memory; the context of everything that the agent does
      ├ execute_tool NAME
      └ step NAME

Rules
- The journaled context is the parent, so a tree of sessions is one trace, whichever processes run it. A session that
  was created without traces has none.
- The process that owns a tree writes its spans. Waits that ended while no process ran the tree are written by the next
  one: those that ended after the last entry that the run itself made.
- A call that began in one process and ends in another is written by the second one, with its true start.
- An error of the SDK or an exporter is logged once, and reaches no run.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from opentelemetry import context as contexts, trace
from opentelemetry.context import Context
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from supervisor.core import events as e
from supervisor.core.rows import JournalEntry
from supervisor.runtime.environment import Body
from supervisor.seam.store import Store
from supervisor.system.logs import FactLog
from supervisor.traces import names
from supervisor.traces.fold import Ended, SessionFold, call_attributes

log = FactLog(__name__)

T = TypeVar("T")

KEPT: Final = 10_000
"""The number of sessions without an attempt whose folds stay in memory. Other folds are made again from journals."""
_OWN: Final = e.having("own", "begins run") | {e.AttemptStarted, e.RunPassivated}
"""Entries that only the process that runs the session makes."""
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_propagator: Final = TraceContextTextMapPropagator()


class _Session:
    """What is known of a session."""

    __slots__ = ("_above", "attempt", "calls", "fold", "missed")

    def __init__(self, fold: SessionFold) -> None:
        self.fold = fold
        self.attempt: Span | None = None
        self.calls: dict[str, Span] = {}
        """The spans of calls whose bodies have begun in this process."""
        self.missed: list[Ended] = []
        """Waits that ended while no process ran the session. The next attempt here writes them."""
        self._above: Context | None = None

    @property
    def above(self) -> Context | None:
        """The context above its spans; None for a session without a trace."""
        if self._above is None and self.fold.traceparent is not None:
            self._above = context_of(self.fold.traceparent)
        return self._above


class Spans:
    """`hear` takes the entries of every commit of the store, in order. `contents`: write inputs, arguments and
    results, too. `now` returns the instant, on the clock of the journal."""

    def __init__(self, store: Store, contents: bool, now: Callable[[], datetime]) -> None:
        self._store, self._contents, self._now = store, contents, now
        self._tracer = trace.get_tracer("subagent-supervisor")
        self._live: dict[str, _Session] = {}
        """Sessions with an attempt in this process."""
        self._idle: OrderedDict[str, _Session] = OrderedDict()
        """The other sessions, those with the latest entries last."""
        self._has_failed = False
        if isinstance(trace.get_tracer_provider(), ProxyTracerProvider | NoOpTracerProvider):
            log.warning("traces.no_sdk", why="configure one, or run the program under opentelemetry-instrument")

    def begin_trace(self, agent: str, above: Context | None) -> str | None:
        """Write that a session begins, and return the context that it journals. `above`: None for the context of the
        caller."""

        def begin() -> str | None:
            now, carrier = _nanoseconds(self._now()), dict[str, str]()
            attributes = {names.AGENT_NAME: agent}
            span = self._tracer.start_span(f"start {agent}", above, attributes=attributes, start_time=now)
            span.end(now)
            _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
            return carrier.get("traceparent")

        return self._safely(begin)

    # -- what runs in this process -----------------------------------------------------------------------------------

    @contextmanager
    def attempting(self, session: str, why_left: Callable[[], str | None]) -> Iterator[None]:
        """Enclose an attempt. At its end `why_left` says why it was left."""
        known = self._safely(lambda: self._begin_attempt(session))
        if known is None or known.attempt is None:
            yield
            return
        with _attached(known.attempt, known.above):
            try:
                yield
            finally:
                self._safely(lambda: self._end_attempt(known, why_left()))

    def _begin_attempt(self, session: str) -> _Session | None:
        known = self._find(session)
        if known is None or known.above is None:
            return None
        fold = known.fold
        self._live[session] = known
        self._idle.pop(session, None)
        known.attempt = self._tracer.start_span(
            f"attempt {fold.agent}",
            known.above,
            attributes={**fold.attributes, names.ATTEMPT: fold.attempt},
            start_time=_nanoseconds(fold.attempt_began or self._now()),
        )
        return known

    def _end_attempt(self, known: _Session, why: str | None) -> None:
        span, known.attempt = known.attempt, None
        self._keep(self._live.pop(known.fold.id))
        left = known.fold.left or why or "suspended"
        now = _nanoseconds(self._now())
        for call in known.calls.values():
            _fail(call, "unfinished")
            call.end(now)
        known.calls.clear()
        if span is not None:
            span.set_attribute(names.LEFT, left)
            if left not in ("succeeded", "cancelled", "passivated", "suspended"):
                _fail(span, left)
            span.end(now)

    @contextmanager
    def body(self, body: Body) -> Iterator[None]:
        """Enclose the body of a call or a step: a span that it begins is below that of the call or step."""
        span = self._safely(lambda: self._begin_body(body))
        if span is None:
            yield
            return
        error: BaseException | None = None
        with _attached(span):
            try:
                yield
            except BaseException as raised:
                error = raised
                raise
            finally:
                if body.kind == "step":
                    self._safely(lambda: self._end_step(span, error))

    def _begin_body(self, body: Body) -> Span | None:
        known = self._live.get(body.session)
        if known is None or known.above is None:
            return None
        fold, now = known.fold, self._now()
        is_below = trace.get_current_span().get_span_context().is_valid
        above = None if is_below else known.above
        if body.kind == "step":
            attributes = {**fold.attributes, names.OPERATION: body.operation}
            return self._tracer.start_span(
                f"step {body.name}", above, attributes=attributes, start_time=_nanoseconds(now)
            )
        span = self._tracer.start_span(
            f"{names.EXECUTE_TOOL} {body.name}",
            above,
            attributes={**fold.attributes, **call_attributes(body.name, body.operation)},
            start_time=_nanoseconds(fold.began(body.operation) or now),
        )
        known.calls[body.operation] = span
        return span

    def _end_step(self, span: Span, error: BaseException | None) -> None:
        if error is not None:
            _fail(span, type(error).__name__)
        span.end(_nanoseconds(self._now()))

    # -- what the journal says ---------------------------------------------------------------------------------------

    def hear(self, entries: Iterable[JournalEntry]) -> None:
        """Take entries that were committed, and write the spans that end with them."""
        for entry in entries:
            self._safely(lambda entry=entry: self._take(entry))  # type: ignore[misc]

    def _take(self, entry: JournalEntry) -> None:
        known = self._live.get(entry.session) or self._find(entry.session, entry)
        if known is None:
            return
        if isinstance(entry.event, e.AttemptStarted):
            for ended in known.missed:
                self._write(known, ended)
            known.missed.clear()
        for ended in known.fold.take(entry.event):
            self._write(known, ended)

    def _write(self, known: _Session, ended: Ended) -> None:
        span = known.calls.pop(ended.operation, None)
        if span is None and known.above is not None:
            span = self._tracer.start_span(ended.name, known.above, start_time=_nanoseconds(ended.began))
        if span is not None:
            span.set_attributes(ended.attributes)
            if ended.error is not None:
                _fail(span, ended.error)
            span.end(_nanoseconds(ended.at))

    def _find(self, session: str, entry: JournalEntry | None = None) -> _Session | None:
        """Return what is known of a session before an entry, or now. None: another process owns its tree."""
        if (known := self._idle.get(session)) is not None:
            if self._store.owns(known.fold.root):
                self._idle.move_to_end(session)
                return known
            del self._idle[session]
            return None
        row = self._store.get_session(session)
        if row is None or not self._store.owns(row.root):
            return None
        return self._keep(self._read(session, entry))

    def _keep(self, known: _Session) -> _Session:
        self._idle[known.fold.id] = known
        while len(self._idle) > KEPT:
            self._idle.popitem(last=False)
        return known

    def _read(self, session: str, entry: JournalEntry | None) -> _Session:
        """Fold the journal of a session up to an entry."""
        known = _Session(SessionFold(session, self._contents))
        for row in self._store.journal(session):
            if entry is not None and row.position >= entry.position:
                break
            if type(row.event) in _OWN:
                known.missed.clear()
            known.missed += [ended for ended in known.fold.take(row.event) if ended.kind == "wait"]
        return known

    def _safely(self, do: Callable[[], T]) -> T | None:
        """Return what `do` returns; None, and one line in the log, if it raises."""
        try:
            return do()
        except Exception as error:  # noqa: BLE001 # a processor of the SDK may raise anything, and the run goes on
            if not self._has_failed:
                self._has_failed = True
                log.warning("traces.failed", error=type(error).__name__)
            return None


@contextmanager
def _attached(span: Span, base: Context | None = None) -> Iterator[None]:
    """Make a span the current one of this task, and of the tasks that it starts."""
    token = contexts.attach(trace.set_span_in_context(span, base))
    try:
        yield
    finally:
        contexts.detach(token)


def _fail(span: Span, error: str) -> None:
    span.set_attribute(names.ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR))


def context_of(traceparent: str) -> Context:
    """Return the context that a session has journaled."""
    return _propagator.extract({"traceparent": traceparent}, Context())


def _nanoseconds(at: datetime) -> int:
    return (at - _BEGINNING) // timedelta(microseconds=1) * 1000
