"""One run of an agent that speaks ACP: a message, and as many processes and turns as it takes.

    ask again what an earlier process left -> [when one is decided] start the agent -> open its session
        -> prompt, and answer its requests -> [while people gave reasons, or decided] prompt again -> its last message

Rules
- No process begins while only requests that an earlier attempt left wait for people.
- The end of a process, or an error as the answer to a prompt, is no end of the run while requests of the agent wait.
  Another process is started in its place, RESTARTS times in PERIOD seconds: at once if the agent offers to open its
  session again, or if an approved call waits for it; else, and when these are used up, after the next decision. Only
  what cannot be started, wants a login or speaks another protocol fails; and what ends again and again while no person
  is asked.
- Nor is its silence: while a person may decide what an earlier process asked, a process that is silent for a budget
  of the watchdog is ended, and another is started. After RESTARTS of these, each decision starts one more.
- The watchdog's clock runs while the agent is at work: until its first sign of a turn as for a model call's first
  progress, then from sign to sign. It stands while a message of the agent waits for a person, whatever the agent says
  of its calls, and while only calls run that it was allowed, which have a deadline of their own.
- Every way out of a process is the same: session/cancel if a turn is under way, `cancelled` as the answer of all that
  is open, a bounded wait, the end of its input. The warden ends what is left.
- What identifies the process is saved before its command begins. So a later attempt ends what is left of it first.
"""

import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from math import inf, isclose
from typing import Any, Final, Protocol

import anyio
import msgspec

from supervisor.agents.acp import words
from supervisor.agents.acp.conversation import AgentFailed, AgentLost, Conversation
from supervisor.agents.acp.json_lines import Talking
from supervisor.agents.acp.request import Request
from supervisor.agents.acp.requests import Requests
from supervisor.agents.acp.saved import read
from supervisor.agents.acp.schema import Schema, load_schema
from supervisor.core.errors import only_error
from supervisor.core.usage import LARGEST, Usage
from supervisor.seam.context import Context

ONE_TURN: Final = Usage(input_tokens=None, cached_input_tokens=None, output_tokens=None)
_TOKENS: Final = ("inputTokens", "cachedReadTokens", "outputTokens")
RESTARTS: Final = 3
PERIOD_SECONDS: Final = 60.0  # seconds in which an agent is started again RESTARTS times
LEAVING: Final = 0.7  # part of `stop_timeout` in which the agent stops by itself; the rest is for the warden


class AgentSilent(AgentLost):
    """The agent's process has shown no progress for a budget of the watchdog, and was ended."""


def _nothing(can_reopen: bool) -> None:
    pass


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `acp_agent` was given. `stop_timeout` and `call_timeout` are seconds."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    stop_timeout: float
    call_timeout: float
    on_greeting: Callable[[bool], None] = _nothing
    """Is told whether the program offers to open a session again."""


class Connect(Protocol):
    """Starts the process of an agent; the block's end ends it. `save` is awaited before the command begins, with what
    identifies the process; `former` identifies the one before it."""

    def __call__(
        self, settings: Settings, cwd: str, session: str, former: Mapping[str, Any] | None, save: Callable[..., Any]
    ) -> AbstractAsyncContextManager[Talking]: ...


async def converse(ctx: Context, message: str, settings: Settings, connect: Connect) -> str:
    """Bring one message to the agent's last word. Raises AgentFailed, and what else ends a run."""
    saved = read(ctx.saved, ctx.saved_before())
    try:
        async with anyio.create_task_group() as tasks:
            requests = Requests(ctx, tasks, saved, settings.call_timeout)
            run = _Run(ctx, message, settings, connect, requests)
            try:
                while not run.is_over:
                    await run.wait_for_news()
                    await run.one_process()
            except Exception:
                await requests.give_up()
                await run.report_unasked()
                raise
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise only_error(group, anyio.get_cancelled_exc_class()) from None
    return run.result


class Counting:
    """What an agent says of its tokens: sums of its session, or of the turn alone; then they are less than before."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}

    def turn(self, said: Mapping[str, Any] | None, usd: float | None) -> Usage | None:
        """Return what one turn has used; None if the agent says nothing. How many requests it made is not known."""
        known = {name: said.get(name) for name in _TOKENS} if said is not None else {}
        now = {name: number for name, number in known.items() if type(number) is int and 0 <= number <= LARGEST}
        if not {"inputTokens", "outputTokens"} <= {*now}:
            return None if usd is None else Usage("", None, None, None, None, usd)
        before = self._before if all(now[name] >= self._before.get(name, 0) for name in now) else {}
        self._before = now
        given, cached, written = (now.get(name, 0) - before.get(name, 0) for name in _TOKENS)
        return Usage("", None, given + cached, cached, written, usd)


class _Run:
    """`result`: the agent's last message. `is_over`: whether nothing is left to be decided."""

    def __init__(self, ctx: Context, message: str, settings: Settings, connect: Connect, requests: Requests) -> None:
        self.is_over = False
        self.result = ""
        self._ctx = ctx
        self._message = message
        self._settings = settings
        self._connect = connect
        self._requests = requests
        self._loss: AgentLost | None = None
        """Why the last process did not end its turn, if it did not."""
        self._losses: list[float] = []
        """The instants of the latest losses; inf: the process was silent, which is not forgotten."""
        self._talking = anyio.CancelScope()
        """Holds the conversation with the process, until that was silent for too long."""
        self._silence = ""
        self._can_reopen = False

    async def wait_for_news(self) -> None:
        """Wait until a process may begin. Raises AgentLost if none may."""
        requests, loss, self._loss = self._requests, self._loss, None
        if loss is None:
            await requests.until(lambda: requests.has_news)
            return
        waiting = requests.undecided
        now = anyio.current_time()
        latest = inf if isinstance(loss, AgentSilent) else now
        self._losses = [*(instant for instant in self._losses if instant > now - PERIOD_SECONDS), latest]
        if len(self._losses) > RESTARTS and not waiting:
            raise AgentLost(
                f"{loss}. That was loss {len(self._losses)} within {PERIOD_SECONDS:g} s: it is not started again"
            )
        is_wanted = self._can_reopen or requests.has_news
        if len(self._losses) > RESTARTS or not is_wanted:
            await requests.until(lambda: not waiting <= requests.undecided)

    async def one_process(self) -> None:
        """Start the agent, and talk with it until it has nothing to do, or waits for people only."""
        ctx, settings, requests = self._ctx, self._settings, self._requests
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._watch)
            schema = await load_schema()
            former = requests.saved.process
            async with self._connect(settings, ctx.cwd, ctx.session, former, self._save_process) as process:
                await self._with(process, schema)
            requests.end_conversation()
            watching.cancel_scope.cancel()

    async def _with(self, process: Talking, schema: Schema) -> None:
        ctx, settings, requests = self._ctx, self._settings, self._requests
        reading = anyio.CancelScope(shield=True)
        async with anyio.create_task_group() as tasks:
            conversation = Conversation(
                settings.name,
                process,
                schema,
                ctx.report,
                ctx.stream,
                on_permission=requests.ask,
                on_sign=self._take_sign,
            )
            tasks.start_soon(_carry, conversation, reading)
            requests.begin_conversation(conversation)
            begun: list[Request] = []
            try:
                with anyio.CancelScope() as self._talking:
                    await self._talk(conversation)
                if self._talking.cancelled_caught:
                    raise AgentSilent(f"{settings.name} was silent: {self._silence}")
            except AgentLost as loss:
                self._loss, begun = loss, requests.lose_agent()
            finally:
                with anyio.move_on_after(LEAVING * settings.stop_timeout, shield=True):
                    await conversation.leave()
                reading.cancel()
            if self._loss is not None:
                await requests.until(lambda: all(request.asked.ended is not None for request in begun))
                if not requests.is_any_unspent:
                    raise self._loss
                await ctx.report("text", f"[supervisor] {self._loss}. What it asked for waits for its next process.")

    async def _talk(self, conversation: Conversation) -> None:
        ctx, requests, before = self._ctx, self._requests, self._requests.saved
        try:
            session, way = await conversation.open(ctx.cwd, before.acp_session)
        except AgentFailed as failure:
            command = shlex.join(self._settings.command)
            raise type(failure)(f"{failure}. To see what it needs, run it in a terminal: {command}") from None
        self._can_reopen = conversation.can_reopen
        self._settings.on_greeting(conversation.can_reopen)
        told = [*requests.take_denied("cancelled"), *requests.tell(also_undecided=True)]
        prompt = words.resumed(self._message, told, was_prompted=before.is_prompted)
        if way == "new" and before.acp_session is not None:
            await ctx.report(
                "text", "[supervisor] the agent's session could not be opened again; it goes on in a new one"
            )
            prompt = words.begun_anew(ctx.transcript(), prompt)
        if (session, True) != (before.acp_session, before.is_prompted):
            await requests.save(acp_session=session, is_prompted=True)
        counting = Counting()
        while True:
            with requests.holding():
                async with ctx.model_call(reserve=ONE_TURN):  # budgets are asked before each turn
                    pass
            stop = await conversation.prompt(prompt)
            await requests.end_turn()
            await self._count(conversation, counting)
            await self.report_unasked()
            told = [*requests.take_denied(stop), *requests.tell(also_undecided=False)]
            if not told:
                break
            prompt = words.decided(told)
        self.is_over = not requests.undecided
        self.result = conversation.updates.said or self.result
        if self.is_over and stop not in ("end_turn", "cancelled"):
            self.result = f"{self.result}\n[the agent stopped: {stop}]".strip()

    async def _count(self, conversation: Conversation, counting: "Counting") -> None:
        """Journal what a turn has used, as far as the agent says it. The cost is saved first: it counts once."""
        requests, cost = self._requests, conversation.updates.cost
        usd, before = None, requests.saved.cost
        if cost is not None:
            is_anew = cost < before and not isclose(cost, before, rel_tol=0.001)  # it counts another session or process
            usd = cost if is_anew else max(0.0, cost - before)
            if usd:
                await requests.save(cost=cost)
        if (used := counting.turn(conversation.used, usd)) is not None:
            await self._ctx.used(used, is_operation=False)

    async def report_unasked(self) -> None:
        """Tell people which approved calls have ended because the agent did not ask for them again."""
        for asked in self._requests.take_unasked():
            text = f"[supervisor] approved, and not asked for again; it did not run: {words.call_text(asked)}"
            await self._ctx.report("text", text)

    async def _save_process(self, process: Mapping[str, Any]) -> None:
        await self._requests.save(process=process)

    # -- the watchdog --------------------------------------------------------------------------------------------------

    def _take_sign(self) -> None:
        self._ctx.heartbeat()
        self._requests.ring()

    async def _watch(self) -> None:
        """Let the clock run while the agent is at work, from its start on."""
        requests = self._requests
        while True:
            await requests.until(lambda: not requests.waits_for_us)
            async with self._ctx.model_call(reserve=Usage(requests=0), on_silence=self._end_silence):
                if requests.has_agent_spoken:
                    self._ctx.heartbeat()
                await requests.until(lambda: requests.waits_for_us)

    def _end_silence(self, cause: str) -> bool:
        """End a process that is silent, if a person may still decide what an earlier one asked."""
        if not self._requests.undecided:
            return False
        self._silence = cause
        self._talking.cancel()
        return True


async def _carry(conversation: Conversation, scope: anyio.CancelScope) -> None:
    with scope:
        await conversation.carry()
