"""A coding agent that you use already, under supervision: what it asks to do waits for you, and survives a kill -9.

pip install 'subagent-supervisor[acp]'      # and OpenCode; log in with `opencode auth login`
supervisor run coding_agent.py:mend 'the tests of the parser fail' --session mend
"""

import os
import shlex

from supervisor import Context, agent, allow, deny
from supervisor.agents.acp import acp_agent

COMMAND = shlex.split(os.environ.get("CODING_AGENT", "opencode acp"))

coder = acp_agent("coder", COMMAND, rules=[deny("coder.execute", "git push")])
reviewer = acp_agent("reviewer", COMMAND, rules=[deny("reviewer.edit")])


@agent(rules=[allow("coder.execute", "git status"), allow("reviewer.execute", "git diff")])
async def mend(ctx: Context, task: str) -> str:
    """Let one agent work and another one look at it, until both are content or a person has had enough."""
    done = await ctx.run(coder, task)
    while True:
        found = await ctx.run(reviewer, f"Review the uncommitted changes. The task was: {task}\n\n{done}")
        answer = await ctx.ask(f"The reviewer says:\n{found}", choices=["keep it", "work on it"])
        if answer == "keep it":
            return done
        done = await ctx.run(coder, f"{task}\n\nA reviewer says of your changes so far:\n{found}")
