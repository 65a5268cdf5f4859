"""The SDK's runner, made ours: inside an agent of ours it runs only what is durable.

The function of an agent that is a tool (`Agent.as_tool`) calls the SDK's Runner. There the Runner gets copies of the
agents, whose requests and calls are operations. Everywhere else inside an agent of ours, a call of the Runner is
refused, with the cure. Outside our agents the Runner does what it always did.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, NoReturn, Protocol

from agents import Agent, RunConfig
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from supervisor.agents.framework import name_word, setting
from supervisor.core.errors import InvalidInput


class Loop(Protocol):
    """The loop of an agent that is a tool. `path`: the path to its first agent."""

    path: str
    run_config: RunConfig

    def supervised(self, agent: Agent[Any]) -> Agent[Any]: ...


class Refusing:
    """Refuses that code which is no agent tool runs another agent: nothing that agent did would be an operation."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.refused: InvalidInput | None = None

    def refuse(self, agent: str) -> NoReturn:
        self.refused = InvalidInput(
            f"{self._what} runs the agent {agent} itself, and nothing that it does would be durable or under a rule: "
            "give it as a tool, by its as_tool() or by supervisor_tool()"
        )
        raise self.refused


_loop: Final[ContextVar["Loop | Refusing | None"]] = ContextVar("supervisor_openai_loop", default=None)
"""What the SDK's Runner does in this task; None: what it does without us."""


def running(loop: "Loop | Refusing | None") -> AbstractContextManager[None]:
    return setting(_loop, loop)


class _Runner(AgentRunner):
    """The SDK's runner. Inside an agent of ours it runs copies, or refuses."""

    def __init__(self, inner: AgentRunner) -> None:
        self._inner = inner

    async def run(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:  # noqa: A002 # the SDK's name
        agent, options = _nested(starting_agent, kwargs)
        return await self._inner.run(agent, input, **options)

    def run_sync(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:  # noqa: A002 # the SDK's name
        if isinstance(loop := _loop.get(), Refusing):
            loop.refuse(starting_agent.name)
        return self._inner.run_sync(starting_agent, input, **kwargs)

    def run_streamed(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:  # noqa: A002 # the SDK's name
        agent, options = _nested(starting_agent, kwargs)
        return self._inner.run_streamed(agent, input, **options)


def _nested(agent: Agent[Any], options: Mapping[str, Any]) -> tuple[Agent[Any], dict[str, Any]]:
    loop = _loop.get()
    if isinstance(loop, Refusing):
        loop.refuse(agent.name)
    if loop is None:
        return agent, dict(options)
    loop.path = f"{loop.path}.{name_word(agent.name)}"
    _loop.set(Refusing("a hook, a guardrail or a function of instructions"))
    return loop.supervised(agent), {**options, "run_config": loop.run_config}


set_default_agent_runner(_Runner(get_default_agent_runner()))
