"""Permission requests of one run, as our calls: asked, decided, answered, and each of them once. So are the questions
that the agent asks people, which are no calls.

    saved -> asked (ctx.call, in a branch of its number) -> decided -> `executing` -> answered -> the call's end

A later attempt finds the saved requests and asks each again before it starts the agent: the branch and the arguments
are the same, so the operation and the approval are. When the agent asks for the same call again, its message is
*attached* to our request, and gets the answer.

Rules
- Which request a message is for, and when an approved call begins: see agents/open_requests.py. So the death of the
  agent, a kill, a stall and other calls leave an approved call as it is.
- Nothing is allowed before `executing` is on disk: the answer `allow_once` is the effect of the call. So a call that
  was executing when our process died is lost, and never answered again.
- A decision is used once. A denial that came while no agent lived answers the first message for the same call.
- An approved call that the agent was told of and did not ask for again ends when the agent itself ends that turn, or
  when the run fails. Its result is an error without an effect, and the run reports it.
- The end of a turn withdraws the requests of that turn that no person has decided: the agent waits for them no more.
  The state that says so is saved first, since a withdrawn operation does not come to an end in a replay. The end of a
  process, or an error as the answer to a prompt, withdraws none: they wait for the next process.
- Between the end of an operation and the state that knows it there is no await: a save of another task would drop it.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace

from supervisor.agents.acp.conversation import Conversation, Incoming
from supervisor.agents.acp.permissions import claims_in, command_in, edits_in, paths_in, rejecting
from supervisor.agents.acp.request import Request, asked_for, option_for, question_of
from supervisor.agents.acp.saved import Asked, Saved
from supervisor.agents.acp.updates import result_text
from supervisor.agents.open_requests import OpenRequests, cancel_again
from supervisor.agents.question_forms import ask_form
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.errors import QuestionUnanswered, ToolFailed
from supervisor.core.ids import canonical_json
from supervisor.core.values import NOT_ASKED_AGAIN, Policy, ToolResult
from supervisor.seam.context import Context, Operations


class Requests:
    """`tasks`: the group in which they wait. `saved`: what the run has saved."""

    def __init__(self, ctx: Context, tasks: TaskGroup, saved: Saved, call_timeout: float) -> None:
        self.saved = saved
        self._conversation: Conversation | None = None
        self._ctx = ctx
        self._tasks = tasks
        self._call_timeout = call_timeout
        self._turn = self._over = 0
        """The number of the latest turn, and of the latest one that has ended."""
        self._live = OpenRequests((each.number, Request(each)) for each in saved.asked)
        self._live.last = saved.number
        self._denied: list[tuple[Asked, bool]] = []
        """Denials in this turn, and whether a person gave a reason."""
        self._unasked: list[Asked] = []
        """Approved calls that the agent has not asked for again, and that no report has told of."""
        self._is_held = False
        self._is_given_up = False
        """Whether no further process of the agent will ask."""
        self._changed = anyio.Event()
        for request in self._left_over:
            if request.asked.ended is None:
                tasks.start_soon(self._carry, request)
            if request.is_withdrawn:
                tasks.start_soon(cancel_again, request.scope)

    # -- what the run asks ---------------------------------------------------------------------------------------------

    def begin_conversation(self, conversation: Conversation) -> None:
        """Answer through this conversation from now on: each process of the agent has its own."""
        self._conversation = conversation

    def end_conversation(self) -> None:
        """The process of the conversation has ended: messages are not answered until the next one begins."""
        self._conversation = None

    @property
    def has_agent_spoken(self) -> bool:
        """Whether an update has come since the prompt."""
        return self._conversation is not None and self._conversation.has_spoken

    def ring(self) -> None:
        """Wake the tasks that wait in `until`: something has changed."""
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    @property
    def _left_over(self) -> list[Request]:
        """The requests of an earlier process for which the agent has not asked again."""
        return [request for request in self._live.values() if request.message is None]

    @property
    def undecided(self) -> frozenset[int]:
        """The numbers of the requests of an earlier process that a person may still decide."""
        return frozenset(request.asked.number for request in self._left_over if request.is_undecided)

    @property
    def is_any_unspent(self) -> bool:
        return any(request.is_unspent for request in self._live.values())

    @property
    def has_news(self) -> bool:
        """Whether the agent can go on: something was decided that it does not know, or nothing is to be decided."""
        is_new = any(request.is_decided and request.told_in is None for request in self._left_over)
        return is_new or not self.undecided

    @property
    def waits_for_us(self) -> bool:
        """Whether a message of the agent waits for a person, whatever the agent says of its other calls; or else, it
        is at calls that it was allowed, and at nothing else."""
        if self._is_held:
            return True
        asked = set()
        for request in self._live.values():
            if (incoming := request.message) is not None:
                if request.is_undecided and not incoming.is_answered:
                    return True
                asked.add(incoming.permission.call)
        return bool(asked) and self._conversation is not None and self._conversation.updates.running <= asked

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Let the agent wait for us meanwhile: it is given its next turn afterwards."""
        self._is_held = True
        self.ring()
        try:
            yield
        finally:
            self._is_held = False
            self.ring()

    async def save(self, **changed: Any) -> None:
        """Save the state with these changes, and with the requests that are open now."""
        self.saved = replace(self.saved, **changed, asked=tuple(each.asked for each in self._live.values()))
        await self._ctx.save(msgspec.to_builtins(self.saved))

    # -- turns ---------------------------------------------------------------------------------------------------------

    def tell(self, *, also_undecided: bool) -> list[tuple[Asked, bool]]:
        """Begin a turn: return the requests of an earlier process that its prompt tells, and whether each is approved.
        The agent has this turn to ask for them again."""
        self._turn += 1
        found = [each for each in self._left_over if each.told_in is None and not each.is_withdrawn]
        for request in found:
            if request.is_decided:
                request.told_in = self._turn
        return [(each.asked, each.is_approved) for each in found if also_undecided or each.is_decided]

    async def end_turn(self) -> None:
        """End the turn's requests: those that are undecided are withdrawn, and the others get their results."""
        self._over = self._turn
        late = [each for each in self._live.values() if each.message is not None and each.is_unspent]
        undecided = [each for each in late if each.is_undecided]
        for request in undecided:
            request.asked = replace(request.asked, is_dropped=True)
        for request in late:
            request.is_withdrawn = True
        if undecided:
            await self.save()
        for request in undecided:
            if not request.is_approved:
                request.scope.cancel()
        for request in [*self._live.values()]:
            request.wake()
            if request.asked.ended is not None and self._is_of_past(request):
                self._conclude(request)
        self.ring()
        await self.until(lambda: not any(self._is_of_past(request) for request in self._live.values()))

    def lose_agent(self) -> list[Request]:
        """The agent has ended no turn, and waits for nothing more: what it asked waits for its next process, which is
        to be told everything again. Return the requests of the calls that it was allowed, whose results will come."""
        begun: list[Request] = []
        for request in self._live.values():
            if request.message is not None and request.message.is_answered:
                begun.append(request)
            request.message = request.told_in = None
        self.ring()
        return begun

    async def give_up(self) -> None:
        """No process of the agent asks any more: give the approved calls their results."""
        self._is_given_up = True
        approved = [request for request in self._live.values() if request.is_approved and request.asked.ended is None]
        for request in approved:
            request.wake()
        self.ring()
        await self.until(lambda: all(request.asked.ended is not None for request in approved))

    def _is_of_past(self, request: Request) -> bool:
        """Whether nothing more is to be told of a request once it has its result."""
        return request.message is not None or (request.told_in is not None and request.told_in <= self._over)

    def take_denied(self, stop: str) -> list[tuple[Asked, bool]]:
        """Return the denials that the next prompt tells: those with a reason and, if the rejection has ended the turn,
        all others. `stop`: why the turn stopped."""
        found, self._denied = self._denied, []
        return [(asked, False) for asked, has_reason in found if has_reason or stop == "cancelled"]

    def take_unasked(self) -> list[Asked]:
        """Return the approved calls that have ended because the agent did not ask for them again."""
        found, self._unasked = self._unasked, []
        return found

    # -- one request ---------------------------------------------------------------------------------------------------

    def ask(self, incoming: Incoming) -> None:
        """Bring a message of the agent to its answer: that of a request for the same call, or of a new one."""
        permission = incoming.permission
        if (found := self._live.find(lambda each: each.is_for(permission))) is not None:
            found.meet(incoming)
            if found.asked.ended is not None:
                self._conclude(found)
        else:
            number = self._live.next_number()
            self.saved = replace(self.saved, number=number)
            request = self._live[number] = Request(asked_for(number, permission), incoming)
            self._tasks.start_soon(self._begin, request)
        self.ring()

    async def _begin(self, request: Request) -> None:
        await self.save()
        await self._carry(request)

    async def _carry(self, request: Request) -> None:
        """Ask a person if need be, and journal the result; until the end of the turn withdraws the request."""
        with request.scope:
            result = await self._decide(request)
            request.asked = replace(request.asked, ended=result.kind, content=result.content)
            is_awaited = request.message is not None
            if self._is_of_past(request):
                self._conclude(request)
            if is_awaited and result.kind == "denied" and request.asked.number not in self._live:
                self._denied.append((request.asked, "said" in result.details))
            if result.details.get("reason") == NOT_ASKED_AGAIN:
                self._unasked.append(request.asked)
        if request.is_withdrawn:
            self._conclude(request)
        self.ring()

    async def _decide(self, request: Request) -> ToolResult[Any]:
        asked = request.asked
        policy: Policy = "ask"
        here = self._ctx.branch(f"request{asked.number}")
        if asked.form is not None:
            return await self._fill_in(request, asked.form, here)
        if asked.choices and asked.choice is None:
            try:
                choice = await here.ask(question_of(asked), choices=asked.choices)
            except QuestionUnanswered as unanswered:
                return _unanswered(unanswered)
            asked = request.asked = replace(request.asked, choice=choice)
        if asked.choice is not None:
            if asked.choice not in asked.allowing:
                return ToolResult(kind="denied", content=f"a person chose {asked.choice!r}")
            policy = "allow"
        called = foreign_tool(
            asked.tool,
            self._effect(request),
            policy=policy,
            timeout=None,
            editable=False,
            command=command_in(asked.given),
            claims=claims_in(asked.given, asked.ids, asked.arguments),
            paths=paths_in(asked.given, asked.ids),
            edits=edits_in(asked.tool, asked.given, asked.ids),
        )
        called.is_ready = self._readiness(request)
        called.asks_model = True
        called.claimed = asked.diff
        return await here.call(called, asked.arguments, because=asked.because)

    async def _fill_in(self, request: Request, form: Mapping[str, Any], here: Operations) -> ToolResult[Any]:
        """Ask a person what the agent's form asks."""
        try:
            content = await ask_form(here, f"The agent asks, in its own words: {request.asked.given['message']}", form)
        except QuestionUnanswered as unanswered:
            return _unanswered(unanswered)
        if content is None:
            return ToolResult(kind="denied", content="a person declined")
        request.asked = replace(request.asked, answer=content)
        return ToolResult(kind="ok", content=canonical_json(content).decode())

    def _readiness(self, request: Request) -> Callable[[Callable[[], None]], bool]:
        def is_ready(wake: Callable[[], None]) -> bool:
            was_approved = request.is_approved
            is_asked_again = request.is_ready(wake)
            if not was_approved:
                self.ring()
            self._check_wanted(request)
            return is_asked_again and self._is_heard(request)

        return is_ready

    def _check_wanted(self, request: Request) -> None:
        """Raise ToolFailed if an approved call is not to begin any more."""
        if request.is_withdrawn:
            text = "the agent's turn had ended before this was decided"
            raise ToolFailed(text, reason="withdrawn", effect="none")
        if self._is_given_up:
            text = "approved, and not asked for again before the run failed; it did not run"
            raise ToolFailed(text, reason=NOT_ASKED_AGAIN, effect="none")
        if request.message is None and self._is_of_past(request):
            text = "the agent was told, and ended its turn without asking for this call again; it did not run"
            raise ToolFailed(text, reason=NOT_ASKED_AGAIN, effect="none")

    def _is_heard(self, request: Request) -> bool:
        """Whether a message waits for the answer, and gets it."""
        return request.message is not None and self._conversation is not None and self._conversation.is_heard

    def _effect(self, request: Request) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
        async def allow(arguments: Mapping[str, Any]) -> ToolResult[Any]:
            while not self._is_heard(request):  # the agent has died since `executing` was committed
                self._check_wanted(request)
                await self._changed.wait()
            assert request.message is not None
            assert self._conversation is not None
            return await self._allow(self._conversation, request.asked, request.message)

        return allow

    async def _allow(self, conversation: Conversation, asked: Asked, incoming: Incoming) -> ToolResult[Any]:
        """Let the agent make the call, and wait for its end. The deadline is kept here, since the agent goes on."""
        option = option_for(asked, incoming.permission)
        if option is None:
            conversation.refuse(incoming, "none of the options allows exactly this call")
            return _without_effect("no_option", "the agent offered no option that allows exactly this call")
        ending = conversation.updates.expect_end(incoming.permission.call)
        conversation.answer(incoming, option)
        with anyio.move_on_after(self._call_timeout) as scope:
            await ending.over.wait()
        content, status = result_text(ending.told), ending.told.get("status")
        if status == "completed":
            return ToolResult(kind="ok", content=content)
        if status == "failed":
            return ToolResult(kind="error", content=content, details={"reason": "failed", "effect": "maybe"})
        reason, text = "unreported", "the turn ended, and the agent did not say how this call had ended"
        if scope.cancelled_caught:
            reason = "deadline"
            text = (
                f"the agent did not report the end of this call within {self._call_timeout:g} s; it may still be at it"
            )
        return ToolResult(kind="error", content=text, details={"reason": reason, "effect": "maybe"})

    def _conclude(self, request: Request) -> None:
        """Answer the agent's message, unless it was answered, and forget the request. If the agent is lost, its next
        process is told."""
        incoming = request.message
        asked, conversation = request.asked, self._conversation
        is_lost = conversation is not None and conversation.is_lost
        if incoming is not None and is_lost and not request.is_withdrawn:
            request.message = None
            self.ring()
            return
        if incoming is None or incoming.is_answered or conversation is None:
            pass
        elif asked.form is not None:
            conversation.fill_in(incoming, asked.answer)
        else:
            option = option_for(asked, incoming.permission) if asked.choice not in (None, *asked.allowing) else None
            if (option := option or rejecting(incoming.permission.options)) is not None:
                conversation.answer(incoming, option)
            else:
                conversation.refuse(incoming, "none of the options rejects this call, and it is not allowed")
        self._live.pop(request.asked.number, None)
        self.ring()


def _unanswered(unanswered: QuestionUnanswered) -> ToolResult[Any]:
    said = {} if unanswered.why is None else {"said": unanswered.why}
    return ToolResult(kind="denied", content=str(unanswered), details=said)


def _without_effect(reason: str, text: str) -> ToolResult[Any]:
    return ToolResult(kind="error", content=text, details={"reason": reason, "effect": "none"})
