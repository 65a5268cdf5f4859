"""Declarations of agents: what the supervisor must know of an agent before it runs it; its budgets and limits.

Rules
- An agent takes its context and at most one input (several fields: a dataclass, TypedDict or Struct).
- Its input is converted in one place by msgspec: JSON on disk, the annotated type in Python.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

import msgspec

from supervisor.core.budgets import Budget, checked_budget
from supervisor.core.declarations.schemas import refuse_unknown
from supervisor.core.declarations.signatures import DeclaredFunction, hint_of, signature_of
from supervisor.core.declarations.tool_schema import tool_schema
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.encoding import INEXACT, JSON_NULL, from_json, is_exact, printable_text, to_json
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.limits import checked_limit
from supervisor.core.values import AgentView

if TYPE_CHECKING:
    from supervisor.core.calls.rules import Rule

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
AnyTool: TypeAlias = "ToolSpec[..., Any] | AgentSpec[..., Any]"

_MAY_BE_NONE: Final = ("active_timeout", "call_timeout", "max_timeout", "approval_expires_in")
"""The budgets that an agent may be without."""


class AgentSpec(DeclaredFunction, Generic[P, R_co]):
    """An agent: its function, its name, its budgets (seconds) and its limits. Made by `agent`."""

    refusal: str = ""
    """Why it cannot be called as a tool, for a copy that was made for one call; "" if it can. See Call.refusal."""

    def __init__(
        self,
        fn: Callable[..., Awaitable[R_co]],
        *,
        name: str | None = None,
        inactivity_timeout: float = 60.0,
        first_progress_timeout: float = 1800.0,
        active_timeout: float | None = None,
        stop_timeout: float = 30.0,
        call_timeout: float | None = None,
        max_timeout: float | None = None,
        passivate_after: float | Literal["default"] | None = "default",
        approval_expires_in: float | None = None,
        rules: Sequence["Rule"] = (),
        tools: Sequence[AnyTool] = (),
        jobs: Literal["end", "keep"] = "end",
        restart: Literal["temporary", "transient"] = "temporary",
        max_restarts: int = 3,
        restart_period: float = 60.0,
        restart_delay: float = 1.0,
        max_restart_delay: float = 30.0,
        max_children: int = 10_000,
        max_live_children: int = 10_000,
        max_depth: int = 16,
        limit: str | None = None,
        budget: Budget | None = None,
        version: str = "1",
        versions: Mapping[str, "AgentSpec[..., Any] | Callable[..., Awaitable[Any]]"] = MappingProxyType({}),
    ) -> None:
        super().__init__(fn, name, "agent")
        for key, seconds in (
            ("inactivity_timeout", inactivity_timeout),
            ("first_progress_timeout", first_progress_timeout),
            ("active_timeout", active_timeout),
            ("stop_timeout", stop_timeout),
            ("call_timeout", call_timeout),
            ("max_timeout", max_timeout),
            ("restart_period", restart_period),
            ("restart_delay", restart_delay),
            ("max_restart_delay", max_restart_delay),
            ("approval_expires_in", approval_expires_in),
        ):
            is_possible = key in _MAY_BE_NONE if seconds is None else seconds > 0
            if not is_possible:
                raise ValueError(f"agent {self.name}: {key} must be more than 0 seconds, not {seconds}")
        if passivate_after is not None and passivate_after != "default" and not passivate_after >= 0:
            raise ValueError(f"agent {self.name}: passivate_after must be 0 or more seconds, not {passivate_after}")
        self.inactivity_timeout = inactivity_timeout
        self.first_progress_timeout = first_progress_timeout
        self.active_timeout = active_timeout
        self.stop_timeout = stop_timeout
        self.call_timeout = call_timeout
        self.max_timeout = max_timeout
        self.passivate_after: float | Literal["default"] | None = passivate_after
        self.approval_expires_in = approval_expires_in
        self.rules = tuple(rules)
        self.cwd: str | None = None
        """The folder of its sessions, relative to the one that its starter chooses. None: that one."""
        self.asks_all_it_awaits = False
        """Whether it awaits nothing but operations of its context. So a replay in which it asks for something else, and
        is silent, has come to its end."""
        self.holds_process = False
        """Whether its run holds a process on its machine, with which no other machine can go on."""
        self.tools = _by_name(self.name, tools)
        if jobs not in ("end", "keep"):
            raise ValueError(f"agent {self.name}: jobs is 'end' or 'keep', not {jobs!r}")
        self.jobs = jobs
        if restart not in ("temporary", "transient"):
            raise ValueError(f"agent {self.name}: restart is 'temporary' or 'transient', not {restart!r}")
        if max_restarts < 0:
            raise ValueError(f"agent {self.name}: max_restarts must be 0 or more, not {max_restarts}")
        longest = sum(min(max_restart_delay, restart_delay * 2.0 ** min(n, 64)) for n in range(max_restarts))
        if longest >= restart_period:
            raise ValueError(
                f"agent {self.name}: the delays of {max_restarts} restarts take up to {longest:g} s, no less than "
                f"restart_period ({restart_period:g} s): it might restart for ever; make the period longer"
            )
        self.restart = restart
        self.max_restarts = max_restarts
        self.restart_period = restart_period
        self.restart_delay = restart_delay
        self.max_restart_delay = max_restart_delay
        self.max_children = max_children
        self.max_live_children = max_live_children
        self.max_depth = max_depth
        self.limit = checked_limit(limit, f"agent {self.name}")
        self.budget = checked_budget(budget, f"agent {self.name}")
        self.version = version
        self.versions = dict(versions)
        if not version or version in self.versions:
            raise ValueError(f"agent {self.name}: `version` must be a text that is not in `versions`, not {version!r}")
        self._take_parameters()
        for old in self.versions:
            self.at_version(old)  # raises here if a version cannot be an agent

    def _take_parameters(self) -> None:
        fn = self.fn
        if not signature_of(fn).parameters:
            raise TypeError(f"agent {self.name} takes no context: its first parameter is the Context")
        parameters = self._parameters(skip=1)
        if parameters and parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"agent {self.name}: its input is passed by position; leave out the '*'")
        if len(parameters) > 1:
            raise TypeError(
                f"agent {self.name} takes {len(parameters)} inputs; an agent takes its context and at most one: "
                "put the fields into a dataclass, TypedDict or Struct"
            )
        self._input = parameters[0] if parameters else None
        self._signature = signature_of(fn)

    def __repr__(self) -> str:
        return f"<agent {self.name} of {self.__module__}>"

    def invoke(self, ctx: Any, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R_co]:
        """Call the agent's function."""
        found: Awaitable[R_co] = self.fn(ctx, *args, **kwargs)
        return found

    def at_version(self, version: str) -> "AgentSpec[Any, Any]":
        """Return the agent that runs a version: this agent, an agent from `versions`, or a function from `versions`
        under this declaration. Raises UnknownAgent, which lists the versions."""
        if version == self.version:
            return self
        found = self.versions.get(version)
        if found is None:
            known = ", ".join(sorted([self.version, *self.versions]))
            raise UnknownAgent(
                f"agent {self.name} has no version {version!r}, which this run began with; it has {known}: "
                f"declare the old code as versions={{{version!r}: ...}}"
            )
        if not isinstance(found, AgentSpec):
            older = copy(self)
            DeclaredFunction.__init__(older, found, self.name, "agent")
            for name in ("offered_struct", "return_type", "takes_text"):
                older.__dict__.pop(name, None)
            older.version, older.versions = version, {}
            older._take_parameters()  # noqa: SLF001 # a copy of this very object
            self.versions[version] = found = older
        return found

    @property
    def offered(self) -> Sequence[inspect.Parameter]:
        return [self._input] if self._input is not None else []

    def input_as_arguments(self, raw: msgspec.Raw) -> msgspec.Raw:
        """Return an encoded input as the arguments of a call of this agent as a tool."""
        return to_json({} if self._input is None else {self._input.name: raw}, self.arguments_text)

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Return what a model is given for each tool: name, description (the docstring), parameters as JSON schema.

        Parameters for the program only (a ToolContext, secrets with a default) are left out. Raises InvalidInput for a
        type that JSON schema cannot describe.
        """
        return [tool_schema(tool) for tool in self.tools.values()]

    def view(self) -> AgentView:
        """Return the description of this agent for people who may start it by its name."""
        description = inspect.cleandoc(self.__doc__ or "")
        if self._input is None:
            return AgentView(name=self.name, description=description, input=None)
        try:
            parameters = tool_schema(self)["parameters"]
        except InvalidInput:  # a type that JSON schema cannot describe
            return AgentView(name=self.name, description=description, input={})
        parts = {"$defs": parameters["$defs"]} if "$defs" in parameters else {}
        schema = {**parameters["properties"][self._input.name], **parts}
        return AgentView(name=self.name, description=description, input=schema)

    @property
    def takes_input(self) -> bool:
        """Whether it can be started with an input."""
        return self._input is not None

    @property
    def input_name(self) -> str | None:
        """The name of its input; None for an agent without one."""
        return None if self._input is None else self._input.name

    def encode_input(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> msgspec.Raw:
        """Encode the one input; raises TypeError for a wrong number, InvalidInput for a value that does not fit."""
        bound = self._signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        if self._input is None:
            return JSON_NULL
        raw = to_json(bound.arguments[self._input.name], f"the input of agent {self.name}", canonical=True)
        self.decode_input(raw)
        return raw

    def why_inexact(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], raw: msgspec.Raw) -> str | None:
        """Return why an encoded input does not say what was given; None: it does."""
        is_same = all(is_exact(value, raw) for value in (*args, *kwargs.values()))
        return None if is_same else f"the input of agent {self.name} {INEXACT}"

    def decode_input(self, raw: msgspec.Raw | bytes) -> tuple[Any, ...]:
        """Return the arguments that follow the context: none or one; raises InvalidInput if the JSON does not fit."""
        if self._input is None:
            if bytes(raw) != bytes(JSON_NULL):
                raise InvalidInput(f"agent {self.name} takes no input")
            return ()
        return (from_json(raw, hint_of(self.fn, self._input.name), f"the input of agent {self.name}"),)

    def read_input(self, text: str) -> tuple[Any, ...]:
        """Return the arguments for a person's text: the JSON value if the text is JSON that fits, else the text itself
        if a text fits.

        A text that looks like an object, a list or a quoted text, and does not fit, counts as text only for an agent
        whose input is a text. Raises InvalidInput, also for a name that the input's type does not have.
        """
        try:
            return self.check_input(text.encode("utf-8", "surrogateescape"))
        except InvalidInput as error:
            is_json = text.lstrip()[:1] in ("{", "[", '"')
            if self._input is None or (is_json and hint_of(self.fn, self._input.name) is not str):
                raise
            try:
                return self.decode_input(to_json(printable_text(text), "the input"))
            except InvalidInput:
                raise error from None

    def check_input(self, raw: msgspec.Raw | bytes) -> tuple[Any, ...]:
        """Return the arguments as `decode_input` does; refuse names that the input's type does not have."""
        values = self.decode_input(raw)
        if self._input is not None:
            refuse_unknown(raw, hint_of(self.fn, self._input.name), f"the input of agent {self.name}")
        return values

    @cached_property
    def takes_text(self) -> bool:
        """Whether the text of a message can be its input."""
        if self._input is None:
            return False
        try:
            from_json(b'"text"', hint_of(self.fn, self._input.name), "a message")
        except InvalidInput:
            return False
        return True

    def default_input(self) -> msgspec.Raw:
        """Encode the input of a start without one; raises InvalidInput if the agent needs one."""
        if self._input is not None and self._input.default is inspect.Parameter.empty:
            raise InvalidInput(f"agent {self.name} needs an input: {self._input}")
        return self.encode_input((), {})


def _by_name(agent: str, tools: Sequence[AnyTool]) -> Mapping[str, AnyTool]:
    """Return an agent's tools by name; raises TypeError for one that is not a tool, ValueError for two of one name."""
    found: dict[str, AnyTool] = {}
    for each in tools:
        if not isinstance(each, ToolSpec | AgentSpec):
            raise TypeError(f"agent {agent}: {each!r} in tools is not a tool: declare it with @tool or @agent")
        if each.name in found:
            raise ValueError(f"agent {agent} has two tools named {each.name}; give one of them another with name=...")
        found[each.name] = each
    return MappingProxyType(found)


class AgentWithoutInput(Protocol[R_co]):
    """An agent that runs without an input: it takes none, or its input has a default. Only for type checkers: an
    `AgentSpec[[], R]` is none whose input has a default."""

    def invoke(self, ctx: Any, /) -> Awaitable[R_co]: ...


class AgentDecorator(Protocol):
    def __call__(self, fn: Callable[Concatenate[Any, P], Awaitable[R]], /) -> AgentSpec[P, R]: ...


@overload
def agent(fn: Callable[Concatenate[Any, P], Awaitable[R]], /) -> AgentSpec[P, R]: ...
@overload
def agent(
    *,
    name: str | None = None,
    inactivity_timeout: float = 60.0,
    first_progress_timeout: float = 1800.0,
    active_timeout: float | None = None,
    stop_timeout: float = 30.0,
    call_timeout: float | None = None,
    max_timeout: float | None = None,
    passivate_after: float | Literal["default"] | None = "default",
    approval_expires_in: float | None = None,
    rules: Sequence["Rule"] = (),
    tools: Sequence[AnyTool] = (),
    jobs: Literal["end", "keep"] = "end",
    restart: Literal["temporary", "transient"] = "temporary",
    max_restarts: int = 3,
    restart_period: float = 60.0,
    restart_delay: float = 1.0,
    max_restart_delay: float = 30.0,
    max_children: int = 10_000,
    max_live_children: int = 10_000,
    max_depth: int = 16,
    limit: str | None = None,
    budget: Budget | None = None,
    version: str = "1",
    versions: Mapping[str, AgentSpec[..., Any] | Callable[..., Awaitable[Any]]] = MappingProxyType({}),
) -> AgentDecorator: ...
def agent(fn: Any = None, /, **options: Any) -> Any:
    """Declare an agent: an async function of a Context and at most one input.

    `inactivity_timeout`: seconds between two signs of progress before the watchdog ends the run (W5).
    `first_progress_timeout`: seconds that a model call may take to its first heartbeat.
    `active_timeout`: seconds of active time of one attempt, without waits for people; None: no bound. For a run that
    has left memory, or its process, the count starts again when it goes on.
    `stop_timeout`: seconds that a run may take to end once it is told to, before it is abandoned (W13).
    `call_timeout`: the deadline in seconds of calls without one of their own. A call's own deadline beats it, and it
    beats the tool's. A tool that keeps its deadline itself (`timeout=None`) gets it as its argument `timeout`.
    `max_timeout`: the longest deadline in seconds that a model may choose for a call, by the argument `timeout` of a
    tool that keeps its deadline itself; a longer one is refused. None: what the tool declares (600 s by default).
    `passivate_after`: seconds after which a run that only waits leaves memory; "default": the supervisor's. None: its
    wait alone never lets it leave memory, because it owns what ends with its attempt, such as a process; a supervisor
    that closes still passivates it.
    `approval_expires_in`: seconds after which its approvals and questions expire: the call is denied, the question
    raises QuestionUnanswered; a question's own `expires_in` beats it. None: never (A10).
    `jobs`: the end of background jobs that its calls began: "end" with the root session, or "keep" (T6).
    `tools`: what a model may call by name (`ctx.call(ToolCall(...))`), sub-agents among them.
    `rules`: standing decisions on its calls and those of its sub-agents; a sub-agent's own can deny and ask, and never
    allow more than its parents' (A7, A14).
    `restart`: "temporary", never; or "transient", again after a failure of its steps or a stall
    (core/sessions/restarts.py).
    `max_restarts`, `restart_period`: a run that was restarted so often within so many seconds, and fails or stalls
    again, is finished. `restart_delay`, `max_restart_delay`: seconds before the first restart in a period, doubled for
    each following one, and their maximum; the actual wait is random, between half and all of it.
    `max_children`, `max_live_children`: sub-agents of one run in all, and at the same time.
    `max_depth`: how many levels of sub-agents there may be below a root.
    `limit`: the name of a Limit: its runs hold a place of it whenever they do not only wait (L1).
    `budget`: what a run and everything below it may spend before a person is asked (B2). A sub-agent's own budget is a
    part of its parents', and widens nothing.
    `version`: of this code; a run keeps the version of its first attempt (R10). `versions`: older code, by version, for
    runs that began with it: a function, under this declaration, or an agent.
    """
    return AgentSpec(fn) if fn is not None else lambda fn: AgentSpec(fn, **options)
