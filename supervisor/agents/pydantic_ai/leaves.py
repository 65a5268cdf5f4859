"""The innermost toolsets of a Pydantic AI agent: what reaches the tool is what the call showed.

A toolset may be wrapped by others, which see each call and may change it. They run inside our call, after a person has
decided. So the innermost toolset gets a call only if its tool and its arguments are those that were shown.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from supervisor.agents.framework import setting


class ChangedCall(Exception):
    """A toolset has made another call of the one that was shown. It did not run."""


class _Expected:
    """The call that was shown."""

    def __init__(self, name: str, arguments: Mapping[str, Any], tool: ToolsetTool[Any]) -> None:
        self.name = name
        self.arguments = {**arguments}
        self.validator = tool.args_validator
        self.changed: ChangedCall | None = None


_expected: Final[ContextVar[_Expected | None]] = ContextVar("supervisor_expected_call", default=None)
"""The call that is made in this task."""


@contextmanager
def expecting(name: str, arguments: Mapping[str, Any], tool: ToolsetTool[Any]) -> Iterator[None]:
    """Let this call, and no other one, reach the innermost toolset in the block. Raises ChangedCall at its end, too: a
    toolset may have caught it."""
    expected = _Expected(name, arguments, tool)
    try:
        with setting(_expected, expected):
            yield
    except Exception:
        if expected.changed is None:
            raise
    if expected.changed is not None:
        raise expected.changed


def check_call(arguments: Mapping[str, Any], tool: ToolsetTool[Any] | None) -> None:
    """Raise ChangedCall unless this is the call that was shown."""
    expected = _expected.get()
    if expected is None:
        return
    is_other = tool is not None and tool.args_validator is not expected.validator
    if is_other or {**arguments} != expected.arguments:
        expected.changed = ChangedCall(
            f"a toolset of the agent has made another call of {expected.name} than was shown and approved, so it did "
            "not run: change arguments in a hook of a capability (before_tool_execute), which runs before a person is "
            "asked, and not in call_tool() of a toolset"
        )
        raise expected.changed


def with_checks(toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
    """Return a toolset whose innermost toolsets check each call. Those that Pydantic AI has made durable are left as
    they are: their calls are operations of the durability, which checks them."""
    return toolset.visit_and_replace(_Checked)


@dataclass
class _Checked(WrapperToolset[Any]):
    @property
    def id(self) -> str | None:
        return self.wrapped.id

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        check_call(tool_args, tool)
        return await super().call_tool(name, tool_args, ctx, tool)
