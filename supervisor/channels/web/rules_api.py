"""Standing rules over HTTP: list, add, revoke (A7)."""

from typing import Final

from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoint, json_document, page_document
from supervisor.channels.web.schemas import RuleBody, RuleDocument, page_of
from supervisor.core.calls.rules import make_rule
from supervisor.core.documents import rule_document
from supervisor.seam import commands
from supervisor.system.known_tools import warn_of_tool


async def list_rules(call: Call) -> Response:
    return page_document(await call.supervisor.find_rules(), rule_document)


async def add_rule(call: Call) -> Response:
    """Add a rule. The header `warning` says if no agent here has its tool."""
    body: RuleBody = call.body
    rule = make_rule(
        body.kind,
        body.tool,
        body.pattern,
        "http",
        body.session,
        unreviewed=body.unreviewed,
        uses=body.uses,
        until=body.until,
    )
    added = await call.supervisor.add_rule(rule, by=call.person.name, pending=body.pending)
    answer = json_document(rule_document(added), 201)
    if (warning := await warn_of_tool(call.supervisor, rule)) is not None:
        answer.headers["warning"] = f'199 - "{warning.encode("ascii", "replace").decode().replace(chr(34), chr(39))}"'
    return answer


async def revoke_rule(call: Call) -> Response:
    return json_document(rule_document(await call.supervisor.revoke_rule(call.path("id"), by=call.person.name)))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/rules",
        name="listRules",
        summary="List the rules that are in force: those of this server, then those of the store",
        handle=list_rules,
        answers={200: page_of(RuleDocument, "RulePage")},
    ),
    Endpoint(
        method="POST",
        path="/api/rules",
        name="addRule",
        summary="Add a rule for calls that begin from now on; adding the same rule again changes nothing",
        handle=add_rule,
        command=commands.AddRule,
        body=RuleBody,
        answers={201: RuleDocument},
    ),
    Endpoint(
        method="DELETE",
        path="/api/rules/{id}",
        name="revokeRule",
        summary="Revoke a rule of the store; the answer is the revoked rule",
        handle=revoke_rule,
        command=commands.RevokeRule,
        answers={200: RuleDocument},
    ),
)
