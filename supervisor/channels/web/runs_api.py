"""Runs over HTTP: their outcomes, and the commands that run a session again: resume, retry, fork (R10).

A client that waits for an outcome repeats its request. Each request waits for at most LONGEST seconds, since proxies
give up slower answers. A waiting request counts as a stream, since it holds a connection like a stream.
"""

from typing import Annotated, Any, Final

import anyio
import msgspec
from msgspec import Meta
from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoints, json_document, read_run_number
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.schemas import ForkBody, ForkDocument, RequestFields, RunDocument, Started
from supervisor.core.errors import RunBlocked
from supervisor.core.values import Outcome
from supervisor.seam import commands
from supervisor.seam.runs import Run

LONGEST: Final = 30


class RunQuery(RequestFields, frozen=True, kw_only=True):
    """`wait`: seconds that the answer waits for the end of the run."""

    wait: Annotated[int, Meta(ge=0, le=LONGEST)] = 0


class RunsStarted(msgspec.Struct, frozen=True):
    items: list[Started]


ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /api/sessions/{id}/runs/{n}", {200: RunDocument}, query=RunQuery)
async def get_run(call: Call) -> Response:
    """A run of a session, by its number or `latest`, with its outcome; `wait` waits for the outcome."""
    query: RunQuery = call.query
    named = call.path("n")
    number = None if named == "latest" else read_run_number(named)
    if number == 0:
        raise Problem(404, f"{named!r:.40} is no run: give its number, from 1, or `latest`")
    run = await call.supervisor.get_run(call.path("id"), number=number)
    outcome = await run.find_outcome()
    if outcome is None and query.wait:
        outcome = await _wait(call, run, query.wait)
    shown = None if outcome is None else msgspec.to_builtins(outcome)
    return json_document({"session": run.session, "run": run.number, "outcome": shown})


@ENDPOINTS.add("POST /api/sessions/{id}/resume", {200: Started}, command=commands.Resume)
async def resume_session(call: Call) -> Response:
    """Resume the tree of a session, if no process runs it."""
    run = await call.supervisor.resume(call.path("id"), by=call.person.name)
    return json_document(Started(run.session, run.number))


@ENDPOINTS.add("POST /api/resume", {200: RunsStarted}, command=commands.ResumeAll)
async def resume_all(call: Call) -> Response:
    """Resume every open tree that no process runs."""
    runs = await call.supervisor.resume_all(by=call.person.name)
    return json_document(RunsStarted([Started(run.session, run.number) for run in runs]))


@ENDPOINTS.add("POST /api/sessions/{id}/retry", {201: Started}, command=commands.Retry)
async def retry_session(call: Call) -> Response:
    """Run a failed session again: what led to the failure is repeated, all other results are kept."""
    run = await call.supervisor.retry(call.path("id"), by=call.person.name)
    return json_document(Started(run.session, run.number), 201)


@ENDPOINTS.add("POST /api/sessions/{id}/fork", {201: ForkDocument}, command=commands.Fork, body=ForkBody)
async def fork_session(call: Call) -> Response:
    """Start a new tree from a copy of this one, as it was before an entry; idempotent by `session`."""
    body: ForkBody = call.body
    by = call.person.name
    made = await call.supervisor.fork(
        call.path("id"), before=body.before, new=body.session, version=body.version, by=by
    )
    return json_document(msgspec.to_builtins(made), 201)


async def _wait(call: Call, run: Run[Any], seconds: int) -> Outcome[Any] | None:
    """Return the outcome if the run ends in time; None also if the server stops. Raises RunBlocked."""
    found: Outcome[Any] | RunBlocked | None = None
    with call.site.streams.held(call.person), anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await call.site.until_stopped()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            try:
                found = await run.outcome()
            except RunBlocked as blocked:  # a task group would wrap it in an exception group
                found = blocked
            tasks.cancel_scope.cancel()
    if isinstance(found, RunBlocked):
        raise found
    return found
