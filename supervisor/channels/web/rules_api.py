"""Standing rules over HTTP: list, add, revoke (A7)."""

from typing import Final

from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoints, json_document, page_document
from supervisor.channels.web.schemas import RuleBody, RuleDocument, page_of
from supervisor.core.calls.rules import make_rule
from supervisor.core.documents import rule_document
from supervisor.seam import commands
from supervisor.system.known_tools import warn_of_tool

ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /api/rules", {200: page_of(RuleDocument, "RulePage")})
async def list_rules(call: Call) -> Response:
    """List the rules that are in force: those of this server, then those of the store."""
    return page_document(await call.supervisor.find_rules(), rule_document)


@ENDPOINTS.add("POST /api/rules", {201: RuleDocument}, command=commands.AddRule, body=RuleBody)
async def add_rule(call: Call) -> Response:
    """Add a rule for calls that begin from now on; adding the same rule again changes nothing.

    The header `warning` says if no agent here has its tool.
    """
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


@ENDPOINTS.add("DELETE /api/rules/{id}", {200: RuleDocument}, command=commands.RevokeRule)
async def revoke_rule(call: Call) -> Response:
    """Revoke a rule of the store; the answer is the revoked rule."""
    return json_document(rule_document(await call.supervisor.revoke_rule(call.path("id"), by=call.person.name)))
