"""The session of a proxied MCP server: each `tools/call` of a client is a call of ours, each elicitation a question.

    client calls -> saved -> journaled, with its approval -> decided -> `executing` -> the server runs it -> its result
    journaled -> result written to the client -> forgotten

Rules
- A tool is named NAME.TOOL. NAME is the operator's and has no dot, so that no server reaches the rules of another one.
- A client that gives up leaves its call as it is: asked, running or ended. The next equal call of a client (the same
  tool and arguments, in canonical JSON) gets it: see agents/open_requests.py. Two clients that call at the same time
  have two calls.
- An approved call begins only while a client waits for it. Once it has begun, it ends without a client, too.
- The result of a call that began for a client that has left is kept for KEPT_SECONDS, and marked: it is no new one. A
  denial is kept until a client hears it.
- Between the end of a call and the state that has its reply there is no await: a save of another task would drop it.
- A question belongs to the server's process. So one that an earlier attempt left is withdrawn.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import msgspec
from msgspec.structs import replace

from supervisor.agents.framework import edit_line
from supervisor.agents.mcp_proxy.callers import Caller, Offered, OpenCall, Request, key_of
from supervisor.agents.mcp_proxy.replies import Reply, failed, read_reply, reply_of
from supervisor.agents.model_arguments import read_arguments
from supervisor.agents.open_requests import Desk, cancel_again, nothing
from supervisor.agents.question_forms import ask_form, parts_of
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.errors import InvalidInput, QuestionUnanswered
from supervisor.core.values import Policy, ToolResult
from supervisor.seam.context import Context
from supervisor.system.loading import declare
from supervisor.system.logs import FactLog

log = FactLog(__name__)

REFERENCE: Final = "command:mcp-proxy"
KEPT_SECONDS: Final = 300.0
"""Seconds for which a result waits for an equal call."""
ENDED_AT: Final = "ended_at"
"""The detail of a result that says when the server gave it: the process that delivers it may be a later one."""
WITHDRAWING_SECONDS: Final = 2.0  # seconds that questions get to be withdrawn when the connection ends
NO_TALK: Final = "This session only carries the calls of MCP clients. Write to the client itself."

Forward = Callable[[OpenCall, dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a call to the server and returns its answer. Raises ToolFailed if there is none."""


class Question(msgspec.Struct, frozen=True):
    """A question of the server as it is saved."""

    number: int
    message: str
    form: dict[str, Any]


class Saved(msgspec.Struct, frozen=True):
    """The state of the session: the number of its last call or question, and what is open."""

    last: int = 0
    requests: tuple[Request, ...] = ()
    questions: tuple[Question, ...] = ()


class _OpenQuestion:
    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.scope = anyio.CancelScope()
        self.answer: Reply = {"action": "cancel"}
        self.is_over = anyio.Event()


class Calls(Desk[OpenCall, Reply]):
    """The calls of one session, between the connection (`call`, `ask`) and the agent that makes them calls of ours.

    `name`: the operator's name of the server. `trust_hints`: whether no person is asked about tools of which the server
    says that they only read. `timeout`: the deadline of a call, in seconds. `forward`: see Forward. `now`: wall time.
    """

    def __init__(
        self,
        name: str,
        *,
        trust_hints: bool,
        timeout: float,
        forward: Forward,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(NO_TALK, "runs nothing more; start the server anew")
        self.agent: AgentSpec[[str], None] = declare(
            AgentSpec(self._serve, name="mcp-proxy", passivate_after=None), REFERENCE
        )
        self._name = name
        self._trust_hints = trust_hints
        self._timeout = timeout
        self._forward = forward
        self._now = now
        self._questions: dict[int, _OpenQuestion] = {}

    # -- the connection ------------------------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], caller: Caller, offered: Offered) -> Reply:
        """Make a call, and wait for its reply. A caller that is cancelled gives up; the call stays."""
        await self._is_settled.wait()
        if self._closed is not None:
            return self._closed
        full = f"{self._name}.{tool}"
        try:
            offered = _usable(full, offered)
            key = key_of(full, arguments)
        except (TypeError, ValueError, RecursionError) as error:
            return failed(f"the call cannot be asked for: {error}")
        found = self._open.find(lambda each: each.asked.key == key and self._left(each.asked) > 0)
        if found is not None:
            found.meet(caller)
        elif problem := read_arguments(full, arguments, offered.schema).problem:
            return failed(problem)
        else:
            self._make(full, arguments, caller, offered)
        return await caller.wait()

    async def ask(self, message: str, form: Mapping[str, Any]) -> Reply:
        """Ask a person what the server asks its client, and return the answer as MCP has it. If this is cancelled, the
        question is withdrawn. Raises InvalidInput for a question that cannot be asked."""
        parts_of(form)
        await self._is_settled.wait()
        if self._closed is not None:
            return {"action": "cancel"}
        number = self._open.next_number()
        question = self._questions[number] = _OpenQuestion(Question(number, message, dict(form)))
        self._announce(question)
        try:
            await question.is_over.wait()
        finally:
            question.scope.cancel()
        return question.answer

    async def withdraw_questions(self) -> None:
        """Withdraw what the server asks: it hears no answer any more."""
        with anyio.move_on_after(WITHDRAWING_SECONDS, shield=True):
            for question in [*self._questions.values()]:
                question.scope.cancel()
                await question.is_over.wait()

    def _refusal(self, text: str, kind: str = "") -> Reply:
        return failed(text)

    def _close(self, refusal: Reply) -> None:
        super()._close(refusal)
        for question in self._questions.values():
            question.is_over.set()

    def _make(self, tool: str, arguments: dict[str, Any], caller: Caller, offered: Offered) -> None:
        """Make a new call for a client."""
        number = self._open.next_number()
        call = self._open[number] = OpenCall(Request(number, tool, arguments), caller, offered)
        self._announce(call)

    def _left(self, request: Request) -> float:
        """Return the seconds for which another client may still get the reply."""
        if request.is_denied or request.ended_at is None:
            return KEPT_SECONDS
        return KEPT_SECONDS - (self._now() - request.ended_at).total_seconds()

    # -- the agent -----------------------------------------------------------------------------------------------------

    async def _serve(self, ctx: Context, server: str) -> None:
        """Carry the calls of MCP clients to the server of this name, as far as people and rules allow them."""
        saved = self._resume(ctx, Saved, OpenCall)
        self._questions = {asked.number: _OpenQuestion(asked) for asked in saved.questions}
        async with anyio.create_task_group() as tasks:
            for question in list(self._questions.values()):
                tasks.start_soon(self._carry, ctx, question)
                tasks.start_soon(cancel_again, question.scope)
            await self._attend(ctx, tasks)

    async def _carry(self, ctx: Context, new: "OpenCall | _OpenQuestion") -> None:
        await (self._answer_call(ctx, new) if isinstance(new, OpenCall) else self._put(ctx, new))

    async def _answer_call(self, ctx: Context, call: OpenCall) -> None:
        """Bring a call to its reply, for the client that waits for it now or later."""
        here = ctx.branch(str(call.asked.number))
        if call.asked.reply is None:
            await self._run(here, call)
        is_kept = call.asked.kept_for is not None
        is_fresh = not is_kept and (call.asked.is_denied or call.message is call.began_for)
        if not (is_fresh and await call.deliver()) and (is_kept or self._left(call.asked) > 0):
            await self._keep(ctx, here, call)
        request, caller = call.asked, call.message
        del self._open[request.number]
        if caller is not None and caller.reply is None:  # it came as the time was over
            self._make(request.tool, request.arguments, caller, call.offered)
        await self._save(ctx)

    async def _keep(self, ctx: Context, here: Context, call: OpenCall) -> None:
        """Keep a reply for the next equal call. The state that says so is saved first: each attempt has the timer."""
        if (kept_for := call.asked.kept_for) is None:
            kept_for = max(0.0, self._left(call.asked))
            call.asked = replace(call.asked, kept_for=kept_for)
            await self._save(ctx)
        if call.asked.is_denied:
            await _deliver_later(call)
        else:
            async with here.move_on_after(kept_for):
                await _deliver_later(call)

    async def _run(self, here: Context, call: OpenCall) -> None:
        """Make a request a call of ours, and set its reply."""
        request, offered = call.asked, call.offered
        policy: Policy = "allow" if self._trust_hints and offered.is_read_only else "ask"
        tool = _tool(request.tool, self._effect(call), offered, policy=policy, timeout=self._timeout)
        tool.is_ready = call.is_ready
        try:
            result = await here.call(tool, request.arguments)
        except InvalidInput as error:
            call.asked = replace(request, reply=failed(f"the call cannot be asked for: {error}"), is_denied=True)
            return
        reply, ended_at = reply_of(result, edit_line(result).strip()), result.details.get(ENDED_AT)
        since = datetime.fromisoformat(ended_at) if isinstance(ended_at, str) else None
        call.asked = replace(request, reply=reply, ended_at=since, is_denied=result.kind == "denied")

    def _effect(self, call: OpenCall) -> Callable[[Mapping[str, Any]], Awaitable[ToolResult[Any]]]:
        tool = call.asked.tool.removeprefix(f"{self._name}.")

        async def run(arguments: Mapping[str, Any]) -> ToolResult[Any]:
            call.begin()
            answer = await self._forward(call, {**call.params, "name": tool, "arguments": dict(arguments)})
            result = read_reply(answer)
            return replace(result, details={**result.details, ENDED_AT: self._now().isoformat()})

        return run

    async def _put(self, ctx: Context, question: _OpenQuestion) -> None:
        """Put a question to a person, until it is withdrawn."""
        number = question.asked.number
        with question.scope:
            question.answer = await self._answer(ctx.branch(f"question{number}"), question.asked)
        self._questions.pop(number, None)
        question.is_over.set()
        await self._save(ctx)

    async def _answer(self, here: Context, asked: Question) -> Reply:
        text = f"The MCP server {self._name} asks, in its own words: {asked.message}"
        try:
            if (content := await ask_form(here, text, asked.form)) is not None:
                return {"action": "accept", "content": content}
        except (QuestionUnanswered, InvalidInput) as unanswered:  # InvalidInput: of an answer that fits only the schema
            log.info("question.unanswered", reason=str(unanswered))
        return {"action": "decline"}

    def _saved(self) -> Saved:
        requests = tuple(each.asked for each in self._open.values())
        return Saved(self._open.last, requests, tuple(each.asked for each in self._questions.values()))


async def _deliver_later(call: OpenCall) -> None:
    while not await call.deliver():
        await call.wait_for_message()


def _tool(
    name: str, effect: Callable[..., Awaitable[Any]], offered: Offered, **options: Any
) -> ToolSpec[[Mapping[str, Any]], Any]:
    return foreign_tool(name, effect, schema=offered.schema, **options)


def _usable(name: str, offered: Offered) -> Offered:
    """Return what is offered, without a schema of no object. Raises ValueError for a tool that cannot be named."""
    foreign_tool(name, nothing)
    try:
        _tool(name, nothing, offered)
    except ValueError:
        return replace(offered, schema=None)
    return offered
