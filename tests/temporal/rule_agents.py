"""An agent whose approved call makes a rule. The worker dies by SIGKILL at the place that RULE_DEATH names, once."""

import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from cluster_agents import die_once, effect

from supervisor import Context, agent, tool
from supervisor.temporal.rules import NamespaceRules
from supervisor.testing import wrapped


async def dying_change(change: Callable[..., Awaitable[None]], rules: NamespaceRules, made: object) -> None:
    for where in ("before the rule", "after the rule"):
        if where == "after the rule":
            await change(rules, made)
        if os.environ.get("RULE_DEATH") == where:
            die_once(where)


_for_ever = ExitStack()
_for_ever.enter_context(wrapped(NamespaceRules, "change", dying_change))


@tool
async def press(button: str) -> str:
    effect(f"pressed {button}")
    return button


@agent
async def pressing_twice(ctx: Context) -> list[str]:
    return [(await ctx.call(press, "red")).kind for _ in range(2)]
