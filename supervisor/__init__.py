"""Sub-agents under a watchdog that waits for people: durable approvals, structured cancellation, no call without a
result."""

from supervisor.abc import Channel, Context, Run, Store, Supervisor, TaskGroup, Timer
from supervisor.app import open_supervisor
from supervisor.channels.terminal import Terminal
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
from supervisor.core.specs import AgentSpec, ToolContext, ToolSpec, agent, tool
from supervisor.core.values import Approval, Approve, Deny, Option, Outcome, SessionView, ToolResult, Verdict
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
    "Deny",
    "InvalidInput",
    "LimitExceeded",
    "MemoryStore",
    "NotFound",
    "Option",
    "Outcome",
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
    "job_kill",
    "job_output",
    "jobs",
    "open_supervisor",
    "shell",
    "tool",
]
