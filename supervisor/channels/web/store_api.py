"""Requests about the whole store: its server, agents, owners, jobs, counts, audit trail and activity."""

from datetime import UTC, datetime
from importlib import metadata
from typing import Final

import msgspec
from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoints, cursor_of_now, json_document, page_document
from supervisor.channels.web.schemas import (
    ActivityDocument,
    ActivityQuery,
    AgentDocument,
    CountsDocument,
    EventDocument,
    Greeting,
    JobDocument,
    JobQuery,
    OwnerDocument,
    PageQuery,
    UsageDocument,
    UsageQuery,
    page_of,
)
from supervisor.core.documents import activity_document, event_document

API: Final = 1
"""The version of the API. A client of another version does not go on."""


ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /api", {200: Greeting})
async def greet(call: Call) -> Response:
    """The API, the store and the person of the token; the server's time, and a cursor of this instant.

    Answer with the API, the store and the person of the token. Raises StoreError if the store cannot be used.
    """
    await call.supervisor.check()
    cursor = await cursor_of_now(call.supervisor)
    person, now = call.person, datetime.now(UTC)
    version = metadata.version("subagent-supervisor")
    store = cursor.partition(".")[0]
    return json_document(
        Greeting(api=API, version=version, store=store, person=person.name, roles=person.roles, now=now, cursor=cursor)
    )


@ENDPOINTS.add("GET /api/agents", {200: page_of(AgentDocument, "AgentPage")})
async def list_agents(call: Call) -> Response:
    """List the agents that this server can start."""
    return page_document(await call.supervisor.find_agents(), msgspec.to_builtins)


@ENDPOINTS.add("GET /api/jobs", {200: page_of(JobDocument, "JobPage")}, query=JobQuery)
async def list_jobs(call: Call) -> Response:
    """List background jobs."""
    query: JobQuery = call.query
    return page_document(await call.supervisor.find_jobs(running=query.running), msgspec.to_builtins)


@ENDPOINTS.add("GET /api/owners", {200: page_of(OwnerDocument, "OwnerPage")})
async def list_owners(call: Call) -> Response:
    """List the living processes that have run trees of this store."""
    return page_document(await call.supervisor.find_owners(), msgspec.to_builtins)


@ENDPOINTS.add("GET /api/counts", {200: CountsDocument})
async def get_counts(call: Call) -> Response:
    """Count the sessions and pending approvals of the store."""
    return json_document(msgspec.to_builtins(await call.supervisor.get_counts()))


@ENDPOINTS.add("GET /api/usage", {200: UsageDocument}, query=UsageQuery)
async def get_usage(call: Call) -> Response:
    """What was spent on models, by agent, model, person or day."""
    query: UsageQuery = call.query
    return json_document(msgspec.to_builtins(await call.supervisor.get_usage(query.session, by=query.by)))


@ENDPOINTS.add("GET /api/audit", {200: page_of(EventDocument, "AuditPage")}, query=PageQuery)
async def list_audit(call: Call) -> Response:
    """The audit trail: requests, decisions, and what ran."""
    query: PageQuery = call.query
    return page_document(await call.supervisor.find_audit(after=query.after, limit=query.limit), event_document)


@ENDPOINTS.add("GET /api/activity", {200: page_of(ActivityDocument, "ActivityPage")}, query=ActivityQuery)
async def show_activity(call: Call) -> Response:
    """What each session is doing now; among many sessions, some are known only later, unless `wholly`."""
    query: ActivityQuery = call.query
    found = await call.site.looks.look(
        call.supervisor, query.session, after=query.after, limit=query.limit, wholly=query.wholly
    )
    for activity in found:
        call.show(*(doing.approval for doing in activity.doing if doing.approval is not None))
    return page_document(found, activity_document)
