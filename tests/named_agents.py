"""Agents that a factory makes, for tests of their names: one has a name in this module, the other has none."""

from collections.abc import Sequence
from typing import Any

from supervisor import AgentSpec, Context, agent

made: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []
"""The commands of which agents were made."""


def make(name: str) -> AgentSpec[[str], str]:
    @agent(name=name)
    async def run(ctx: Context, text: str) -> str:
        return f"{name}: {text}"

    return run


def fake_agent(name: str, command: Sequence[str], **options: Any) -> AgentSpec[[str], str]:
    """Stand for `acp_agent`."""
    made.append((name, tuple(command), options))

    @agent(name=name, **{key: value for key, value in options.items() if key not in ("cwd", "env")})
    async def run(ctx: Context, text: str) -> str:
        return await ctx.ask(f"{name} runs {' '.join(command)} for {text}. Go on?")

    return run


reviewer = make("the reviewer")
hidden = [make("hidden")]
