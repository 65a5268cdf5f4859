"""Sub-agents under a watchdog that waits for people: durable approvals, structured cancellation, no call without a
result."""

from supervisor.abc import Channel, Context, Owner, Row, Run, Store, Supervisor, TaskGroup, Timer
from supervisor.app import open_supervisor
from supervisor.channels.terminal import Terminal
from supervisor.core.agent_spec import AgentSpec, agent
from supervisor.core.errors import (
    InvalidInput,
    LimitExceeded,
    NotFound,
    RunAbandoned,
    RunCancelled,
    RunFailed,
    RunStalled,
    RunStopping,
    SessionConflict,
    StepFailed,
    StoreDied,
    StoreError,
    StoreRefused,
    StoreUnreadable,
    SupervisorError,
    Suspended,
    ToolFailed,
    TreeOwned,
    UnknownAgent,
)
from supervisor.core.rules import Rule, allow, ask_for, deny
from supervisor.core.tool_spec import ToolSpec, tool
from supervisor.core.toolcontext import ToolContext
from supervisor.core.values import (
    Approval,
    Approve,
    Decision,
    Deny,
    Message,
    Option,
    Outcome,
    Receipt,
    SessionView,
    ToolResult,
    Verdict,
)
from supervisor.store.memory_store import MemoryStore
from supervisor.store.sqlite import SqliteStore
from supervisor.tools.jobs import job_kill, job_output, jobs
from supervisor.tools.shell import shell

__all__ = [
    "AgentSpec",
    "Approval",
    "Approve",
    "Channel",
    "Context",
    "Decision",
    "Deny",
    "InvalidInput",
    "LimitExceeded",
    "MemoryStore",
    "Message",
    "NotFound",
    "Option",
    "Outcome",
    "Owner",
    "Receipt",
    "Row",
    "Rule",
    "Run",
    "RunAbandoned",
    "RunCancelled",
    "RunFailed",
    "RunStalled",
    "RunStopping",
    "SessionConflict",
    "SessionView",
    "SqliteStore",
    "StepFailed",
    "Store",
    "StoreDied",
    "StoreError",
    "StoreRefused",
    "StoreUnreadable",
    "Supervisor",
    "SupervisorError",
    "Suspended",
    "TaskGroup",
    "Terminal",
    "Timer",
    "ToolContext",
    "ToolFailed",
    "ToolResult",
    "ToolSpec",
    "TreeOwned",
    "UnknownAgent",
    "Verdict",
    "agent",
    "allow",
    "ask_for",
    "deny",
    "job_kill",
    "job_output",
    "jobs",
    "open_supervisor",
    "shell",
    "tool",
]
