"""Requests about the whole store: its server, agents, owners, jobs, counts, audit trail and activity."""

from datetime import UTC, datetime
from importlib import metadata
from typing import Final

import msgspec
from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoint, cursor_of_now, json_document, page_document
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


async def greet(call: Call) -> Response:
    """Answer with the API, the store and the person of the token. Raises StoreError if the store cannot be used."""
    await call.supervisor.check()
    cursor = await cursor_of_now(call.supervisor)
    person, now = call.person, datetime.now(UTC)
    version = metadata.version("subagent-supervisor")
    store = cursor.partition(".")[0]
    return json_document(
        Greeting(api=API, version=version, store=store, person=person.name, roles=person.roles, now=now, cursor=cursor)
    )


async def list_agents(call: Call) -> Response:
    return page_document(await call.supervisor.find_agents(), msgspec.to_builtins)


async def list_jobs(call: Call) -> Response:
    query: JobQuery = call.query
    return page_document(await call.supervisor.find_jobs(running=query.running), msgspec.to_builtins)


async def list_owners(call: Call) -> Response:
    return page_document(await call.supervisor.find_owners(), msgspec.to_builtins)


async def show_counts(call: Call) -> Response:
    return json_document(msgspec.to_builtins(await call.supervisor.get_counts()))


async def show_usage(call: Call) -> Response:
    query: UsageQuery = call.query
    return json_document(msgspec.to_builtins(await call.supervisor.get_usage(query.session, by=query.by)))


async def list_audit(call: Call) -> Response:
    query: PageQuery = call.query
    return page_document(await call.supervisor.find_audit(after=query.after, limit=query.limit), event_document)


async def show_activity(call: Call) -> Response:
    query: ActivityQuery = call.query
    found = await call.site.looks.look(
        call.supervisor, query.session, after=query.after, limit=query.limit, wholly=query.wholly
    )
    for activity in found:
        call.show(*(doing.approval for doing in activity.doing if doing.approval is not None))
    return page_document(found, activity_document)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api",
        name="greet",
        summary="The API, the store and the person of the token; the server's time, and a cursor of this instant",
        handle=greet,
        answers={200: Greeting},
    ),
    Endpoint(
        method="GET",
        path="/api/agents",
        name="listAgents",
        summary="List the agents that this server can start",
        handle=list_agents,
        answers={200: page_of(AgentDocument, "AgentPage")},
    ),
    Endpoint(
        method="GET",
        path="/api/jobs",
        name="listJobs",
        summary="List background jobs",
        handle=list_jobs,
        query=JobQuery,
        answers={200: page_of(JobDocument, "JobPage")},
    ),
    Endpoint(
        method="GET",
        path="/api/owners",
        name="listOwners",
        summary="List the living processes that have run trees of this store",
        handle=list_owners,
        answers={200: page_of(OwnerDocument, "OwnerPage")},
    ),
    Endpoint(
        method="GET",
        path="/api/counts",
        name="getCounts",
        summary="Count the sessions and pending approvals of the store",
        handle=show_counts,
        answers={200: CountsDocument},
    ),
    Endpoint(
        method="GET",
        path="/api/usage",
        name="getUsage",
        summary="What was spent on models, by agent, model, person or day",
        handle=show_usage,
        query=UsageQuery,
        answers={200: UsageDocument},
    ),
    Endpoint(
        method="GET",
        path="/api/audit",
        name="listAudit",
        summary="The audit trail: requests, decisions, and what ran",
        handle=list_audit,
        query=PageQuery,
        answers={200: page_of(EventDocument, "AuditPage")},
    ),
    Endpoint(
        method="GET",
        path="/api/activity",
        name="showActivity",
        summary="What each session is doing now; among many sessions, some are known only later, unless `wholly`",
        handle=show_activity,
        query=ActivityQuery,
        answers={200: page_of(ActivityDocument, "ActivityPage")},
    ),
)
