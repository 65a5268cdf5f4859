"""The names of spans and attributes, in one table.

Those of the GenAI conventions are the names of version 1.44 of OpenTelemetry's semantic conventions. They are still in
development there, so they are pinned here, and change with a release of ours. All other names are our own.
"""

from typing import Final

INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
PROVIDER: Final = "subagent-supervisor"
"""The convention requires a provider; ours is the framework, since a run may ask several models or none."""

# Of the GenAI conventions
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""The session."""
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
"""The operation."""

INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"

# Of the GenAI conventions, written only if contents are asked for
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"

# Of the general conventions
ERROR_TYPE: Final = "error.type"

# Our own
ROOT_SESSION: Final = "supervisor.root_session"
RUN: Final = "supervisor.run"
"""The number of the run in its session, from 1."""
ATTEMPT: Final = "supervisor.attempt"
"""The number of the attempt in its run, from 1."""
OUTCOME: Final = "supervisor.outcome"
"""How a run ended."""
LEFT: Final = "supervisor.left"
"""Why an attempt left memory: an outcome, passivated, suspended, blocked, or restarted."""
RESULT: Final = "supervisor.result"
"""The kind of a call's result."""
WAIT: Final = "supervisor.wait"
"""What was waited for: approval, question or timer."""
DECISION: Final = "supervisor.decision"
"""How a wait for a person ended: approve, deny, answer, expired or withdrawn."""
MODEL_REQUESTS: Final = "supervisor.model_requests"
"""How many requests to models a run or a call made, as far as it is known."""
USD: Final = "supervisor.usd"
"""Their price in dollars, as far as it is known."""
UNPRICED: Final = "supervisor.unpriced_requests"
"""How many of them have no known price; not there if all have one."""
OPERATION: Final = "supervisor.operation"
