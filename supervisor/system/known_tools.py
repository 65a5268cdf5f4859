"""Whether a tool that a rule names is one that an agent here has: a fence on a misspelled name keeps nothing out.

Rules
- The tools of an agent are those that it declares, those of its module, and those that sessions of the store called.
- A rule on another tool is a warning, and no error: the tool may come later, or be another program's.
- A store with too many calls to read them all warns about nothing.
"""

import sys
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any, Final

from supervisor.core import events as e
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.text.visible import visible
from supervisor.seam.supervisor import Supervisor

MOST: Final = 10_000
"""Entries of the audit trail that are read."""
_LISTED: Final = 12


async def warn_of_tool(supervisor: Supervisor, rule: Rule) -> str | None:
    """Return a warning about a rule that is added to a store; None if the tool is known, or nothing is known yet."""
    known = declared_tools(getattr(supervisor, "agents", {}).values())
    if rule.tool in known:
        return None
    called, after = set[str](), None
    for _ in range(MOST // 1000):
        page = await supervisor.find_audit(after=after, limit=1000)
        called |= {row.event.tool for row in page if isinstance(row.event, e.ToolCallRequested)}
        if rule.tool in called:
            return None
        if (after := page.next) is None:
            return why_no_tool(rule.tool, known | called)
    return None


def why_no_tool(tool: str, known: Collection[str]) -> str | None:
    """Return a warning if a tool is not among the known ones; None if it is, or if none is known."""
    if not known or tool in known:
        return None
    folded = {each.casefold(): each for each in sorted(known)}
    close = get_close_matches(tool.casefold(), folded, n=1, cutoff=0.6)
    meant = f"; did you mean {visible(folded[close[0]])}?" if close else ""
    listed = ", ".join(visible(each) for each in sorted(known)[:_LISTED])
    return f"no agent here has a tool named {visible(tool)}, so the rule may never match{meant} Seen: {listed}"


def declared_tools(agents: Iterable[AgentSpec[..., Any]]) -> set[str]:
    """Return the names of the tools, and of the agents that are called as tools, that code declares."""
    found = set[str]()
    for agent in agents:
        found |= {agent.name, *agent.tools}
        module = sys.modules.get(agent.__module__)
        declared = (each for each in vars(module).values() if isinstance(each, AgentSpec | ToolSpec)) if module else ()
        found |= {each.name for each in declared}
    return found
