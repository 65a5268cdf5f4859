"""What is not wrong in a configuration, but is not what a person expects: `check` and `serve` say it, a line each.

- A rule on a tool that no configured agent has matches nothing.
- A rule whose prefix lost its review allows nothing.
- Files of ours in a folder in which sessions run can be changed by every command that runs there: a rule with a pattern
  never covers a call that names them, and a script may write them all the same.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from supervisor.core.calls.rules import why_void
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.system.known_tools import declared_tools, why_no_tool
from supervisor.system.settling import files_of_ours
from supervisor.wiring.config import Configuration, make_rule


def cautions(
    configuration: Configuration, agents: Mapping[str, AgentSpec[..., Any]], store: Path | None
) -> Iterator[str]:
    """Yield the warnings about a configuration, whose agents are these. `store`: the file that is served."""
    known = declared_tools(agents.values())
    own = [rule for agent in configuration.agents.values() for rule in agent.rules]
    speaks_acp = tuple(f"{name}." for name, agent in configuration.agents.items() if agent.acp is not None)
    for part in (*configuration.rules, *own):
        rule = make_rule(part)
        if (why := why_void(rule)) is not None:
            yield f"the rule {rule.kind} {rule.tool} {rule.pattern} allows nothing: {why}"
        if not (speaks_acp and rule.tool.startswith(speaks_acp)) and (why := why_no_tool(rule.tool, known)):
            yield f"the rule {rule.kind} {rule.tool}: {why}"
    if agents:
        yield from _exposed(configuration, agents, store)


def _exposed(
    configuration: Configuration, agents: Mapping[str, AgentSpec[..., Any]], store: Path | None
) -> Iterator[str]:
    here = Path.cwd()
    folders = {os.path.realpath(here / agent.cwd) if agent.cwd else os.path.realpath(here) for agent in agents.values()}
    files = {os.path.realpath(each) for each in (configuration.file, *files_of_ours()) if each and Path(each).exists()}
    files |= {os.path.realpath(store)} if store is not None else set()
    below = {file: folder for file in files for folder in folders if file.startswith(f"{folder.rstrip('/')}/")}
    own = store.name if store is not None else None
    for file, folder in sorted(below.items()):
        if own is None or (not Path(file).name.startswith(f"{own}-") and not Path(file).name.startswith(f"{own}.")):
            yield f"{file} lies in {folder}, where sessions run: what they run can change it. Keep it in another folder"
