"""The agent that asks people on behalf of a program with permission requests of its own: Claude Code.

Another program, the client, asks whether it may make a call. Each question is a call of ours, with its approval and our
rules. The effect of that call is the answer "allow"; the client itself then makes its own call.

    client asks -> request saved -> call journaled, with its approval -> decided -> `executing` -> answer written

The client may die, or give up, while a person decides. Then the approval stays, and the decision waits for the client
to ask for the same call again: the same tool and the same input, in canonical JSON, in the same session. How a command
is described may differ.

Rules
- A decision is used once. A denial leaves the saved state before the client gets it. What dies after that is lost, and
  the same call asked again is a new approval.
- Which request a client that asks again gets, and when an approved call begins: see agents/open_requests.py. Two
  clients that ask for the same call at the same time get two approvals.
- Claude Code's question to a person is a question, and no call: no rule is asked, and the answer is what the client
  gets. Its plan is allowed once only, whatever it says.
- The model's description of a command is its words to the person who decides, and no argument.
- A request that an earlier version has stored is asked as that version asked it.
- Every failure denies, and says why.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from supervisor.agents.claude import questions as claude_questions
from supervisor.agents.claude.previews import PREVIEWED, change_of
from supervisor.agents.claude.spending import Conversation, Read
from supervisor.agents.model_arguments import read_arguments
from supervisor.agents.open_requests import Asking, Desk, OpenRequest, nothing
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.errors import InvalidInput, QuestionUnanswered, ToolFailed
from supervisor.core.ids import canonical_json
from supervisor.core.values import ToolResult
from supervisor.seam.context import Context
from supervisor.system.loading import declare

REFERENCE: Final = "command:claude-code"
COMMANDS: Final[Mapping[str, str]] = {"Bash": "command"}
"""The tools of Claude Code that run a shell command, with the argument that holds it."""
DESCRIPTION: Final = "description"
CLAIMS: Final[Mapping[str, tuple[str, ...]]] = {"Bash": (DESCRIPTION, "timeout")}
"""Their arguments that rules do not see. Claude Code describes the same command in other words each time, and its
timeout, in milliseconds, only says how long it waits."""
ONCE: Final = frozenset({"ExitPlanMode"})
"""The tools whose calls are allowed once only: the next plan is another one, even if its arguments do not say so."""
LOOK_SECONDS: Final = 10.0
LEAVING_SECONDS: Final = 5.0
FORM: Final = 1
"""How requests are asked now: see `Request.form`."""
NO_TALK: Final = "This session only answers permission requests. Write to Claude Code where it runs."
ALLOWED: Final = "allowed: the program makes the call itself, and its result is not known here"
LEFT: Final = "the program that asked does not wait for the answer any more, and was allowed nothing"


class Allowed(msgspec.Struct, frozen=True):
    """The call may be made, with these arguments: a person may have changed them."""

    arguments: dict[str, Any]


class Denied(msgspec.Struct, frozen=True):
    """The call may not be made. `ends_turn`: the client is to stop its turn, too."""

    reason: str
    ends_turn: bool = False


class Client(Asking[Allowed | Denied]):
    """One request of the client."""


def key_of(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """Return what two requests for the same call have in common. How a command is described makes no other call of
    it: the client gets the arguments that were decided."""
    described = {DESCRIPTION} if tool in COMMANDS else ()
    return canonical_json([tool, {name: value for name, value in arguments.items() if name not in described}])


class Request(msgspec.Struct, frozen=True):
    """A request as it is saved. `denied`: why it was denied, if its client has not been told yet; `answered`: the
    arguments with which a question was answered, likewise. `form`: how it is asked. 0: each request is a call, with all
    its arguments. 1: questions are questions, and the description of a command is no argument."""

    number: int
    tool: str
    input: dict[str, Any]
    denied: str | None = None
    answered: dict[str, Any] | None = None
    form: int = 0

    @property
    def is_question(self) -> bool:
        return self.form > 0 and self.tool == claude_questions.TOOL

    @property
    def because(self) -> str:
        """The model's words about a command. They are no argument of its call."""
        said = self.input.get(DESCRIPTION)
        return said if self.form > 0 and self.tool in COMMANDS and isinstance(said, str) else ""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call that the request becomes."""
        if not self.because:
            return self.input
        return {name: value for name, value in self.input.items() if name != DESCRIPTION}

    @property
    def answer(self) -> "Allowed | Denied | None":
        """What the client has not been told yet."""
        if self.answered is not None:
            return Allowed(self.answered)
        return None if self.denied is None else Denied(self.denied)

    def with_answer(self, answer: "Allowed | Denied") -> "Request":
        if isinstance(answer, Allowed):
            return replace(self, answered=answer.arguments)
        return replace(self, denied=answer.reason)

    @property
    def key(self) -> bytes:
        return key_of(self.tool, self.input)


class Saved(msgspec.Struct, frozen=True):
    """The state of the session: the number of its last request, and the requests without an answer."""

    last: int = 0
    requests: tuple[Request, ...] = ()
    counted: dict[str, Read] | UnsetType = UNSET
    """How far the files of the conversation are counted (spending.py)."""


class Waiting(OpenRequest[Request, Client]):
    """A request without an answer, and the client that waits for it, if there is one."""

    @property
    def is_decided(self) -> bool:
        return self.is_approved or self.asked.answer is not None


class Permissions(Desk[Waiting, Allowed | Denied]):
    """The requests of one session, between the client's connection (`ask`) and the agent that makes them calls."""

    def __init__(self, conversation: Conversation | None = None) -> None:
        self._conversation = conversation
        self._counted = dict[str, Read]()
        self._look = anyio.Event()
        self._has_looked = anyio.Event()
        self._is_over = False
        super().__init__(NO_TALK, "asks no person any more; choose another --session")
        self.agent: AgentSpec[[], None] = declare(
            AgentSpec(self._serve, name="claude-code", passivate_after=None), REFERENCE
        )

    # -- the client ----------------------------------------------------------------------------------------------------

    async def ask(self, tool: str, arguments: dict[str, Any], client: Client) -> Allowed | Denied:
        """Ask for a call, and wait for the answer. A caller that is cancelled gives up; the request stays."""
        await self._is_settled.wait()
        if self._closed is not None:
            return self._closed
        try:
            foreign_tool(tool, nothing)
            key = key_of(tool, arguments)
        except (TypeError, ValueError, RecursionError) as error:
            return Denied(f"the request cannot be asked for: {error}")
        if (found := self._open.find(lambda each: each.asked.key == key)) is not None:
            found.meet(client)
        else:
            if problem := read_arguments(tool, arguments).problem:
                return Denied(problem)
            number = self._open.next_number()
            found = self._open[number] = Waiting(Request(number, tool, arguments, form=FORM), client)
            self._announce(found)
        self._look.set()
        return await client.wait()

    async def leave(self) -> None:
        """The client has left: count what it has used until now, if that can be done soon."""
        if self._conversation is None or self._closed is not None:
            return
        self._is_over = True
        self._look.set()
        with anyio.move_on_after(LEAVING_SECONDS):
            await self._has_looked.wait()

    def _refusal(self, text: str, kind: str = "") -> Denied:
        return Denied(text, ends_turn=kind == "cancelled")

    # -- the agent -----------------------------------------------------------------------------------------------------

    async def _serve(self, ctx: Context) -> None:
        """Ask people about the calls that a program wants to make, for as long as the program runs."""
        self._counted = self._resume(ctx, Saved, Waiting).counted or {}
        async with anyio.create_task_group() as tasks:
            if self._conversation is not None:
                tasks.start_soon(self._count, ctx, self._conversation)
            await self._attend(ctx, tasks)

    async def _count(self, ctx: Context, conversation: Conversation) -> None:
        """Journal what Claude Code says that it has used. What is counted is saved first: it counts once, or, if we are
        killed in between, not at all."""
        while not self._has_looked.is_set():
            is_over, self._look = self._is_over, anyio.Event()
            now, used = conversation.read(self._counted, is_over=is_over)
            has_more = now != self._counted
            is_new, self._counted = now.keys() != self._counted.keys(), now
            if used or is_new:
                await self._save(ctx)
            for each in used:
                await ctx.used(each, is_operation=False)
            if is_over and not has_more:
                self._has_looked.set()
            with anyio.move_on_after(0 if has_more else LOOK_SECONDS):
                await self._look.wait()

    async def _carry(self, ctx: Context, waiting: Waiting) -> None:
        """Bring a request to its answer, for the client that waits for it now or later."""
        answer = waiting.asked.answer or await self._settle(ctx, waiting)
        while answer is None:
            client = waiting.message
            if client is None or client.reply is not None:
                return
            # The call was answered, or may have been, before this client asked: its request is another one.
            number = self._open.next_number()
            waiting.asked, waiting.is_approved = replace(waiting.asked, number=number, form=FORM), False
            self._open[number] = waiting
            await self._save(ctx)
            answer = await self._settle(ctx, waiting)
        if waiting.message is None:
            waiting.asked = waiting.asked.with_answer(answer)
            await self._save(ctx)
        client = await waiting.wait_for_message()
        del self._open[waiting.asked.number]
        await self._save(ctx)
        client.give(answer)

    async def _settle(self, ctx: Context, waiting: Waiting) -> Allowed | Denied | None:
        """Make a request a call, or a question. Return what its client is to be told; None if it is done with: its
        client was answered, or may have been."""
        request = waiting.asked
        here = ctx.branch(str(request.number))
        try:
            if request.is_question:
                return Allowed(await claude_questions.ask(here, request.input))
            result = await here.call(_tool_of(waiting), request.arguments, because=request.because)
        except InvalidInput as error:
            return Denied(f"the call cannot be asked for: {error}")
        except QuestionUnanswered as unanswered:
            return Denied(str(unanswered))
        if result.kind == "denied" or result.details.get("reason") == "invalid_arguments":
            return Denied(result.content)
        del self._open[request.number]
        return None

    def _saved(self) -> Saved:
        return Saved(self._open.last, tuple(each.asked for each in self._open.values()), self._counted or UNSET)


def _tool_of(waiting: Waiting) -> ToolSpec[[Mapping[str, Any]], Any]:
    """Return the tool whose call a request becomes."""
    request = waiting.asked
    claims = [each for each in CLAIMS.get(request.tool, ()) if each in request.arguments]
    if request.form > 0 and request.tool in ONCE:
        claims = [*dict.fromkeys(["plan", *request.arguments])]  # a call that has nothing but claims
    preview = change_of if request.tool in PREVIEWED else None
    tool = foreign_tool(
        request.tool, _allower(waiting), command=COMMANDS.get(request.tool), claims=claims, preview=preview
    )
    tool.asks_model = True
    tool.is_ready = waiting.is_ready
    return tool


def _allower(waiting: Waiting) -> Callable[[Mapping[str, Any]], Awaitable[ToolResult[None]]]:
    """Return the effect of an approved call: it answers the client."""

    async def allow(arguments: Mapping[str, Any]) -> ToolResult[None]:
        client = waiting.message
        if client is None:
            raise ToolFailed(LEFT, effect="none")
        words = {DESCRIPTION: waiting.asked.because} if waiting.asked.because else {}
        client.give(Allowed({**words, **arguments}))
        await client.is_over.wait()
        if not client.was_written:
            raise ToolFailed(LEFT, effect="none")
        return ToolResult(kind="ok", content=ALLOWED)

    return allow
