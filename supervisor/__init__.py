"""Sub-agents under a watchdog that waits for people: durable approvals, structured cancellation, no call without a
result.

A name is imported when it is asked for: a command needs few of them, answers sooner, and hears Ctrl-C meanwhile.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supervisor.abc import (
        Channel,
        ChildRun,
        Context,
        JournalEntry,
        Owner,
        Run,
        Store,
        Supervisor,
        TaskGroup,
        Timer,
        Webhook,
        WebhookReply,
    )
    from supervisor.app import open_supervisor
    from supervisor.channels.terminal import Terminal
    from supervisor.core.agent_spec import AgentSpec, agent
    from supervisor.core.errors import (
        CursorUnknown,
        InvalidInput,
        LimitExceeded,
        NotAuthenticated,
        NotEntitled,
        NotFound,
        QuestionUnanswered,
        RunAbandoned,
        RunBlocked,
        RunCancelled,
        RunError,
        RunFailed,
        RunStalled,
        RunStopping,
        ServerError,
        ServerMismatch,
        ServerUnavailable,
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
    from supervisor.core.people import ApproverRule, People, Person, TokenHash
    from supervisor.core.rules import Rule, allow, ask_for, deny
    from supervisor.core.tool_spec import ToolSpec, tool
    from supervisor.core.toolcontext import ToolContext
    from supervisor.core.values import (
        Answer,
        Approval,
        Approve,
        Decision,
        DecisionResult,
        Deny,
        Fork,
        LaterCall,
        Message,
        Option,
        Outcome,
        Policy,
        SendResult,
        SessionView,
        ToolCall,
        ToolResult,
    )
    from supervisor.core.words import ChatResult
    from supervisor.store.memory_store import MemoryStore
    from supervisor.store.sqlite import SqliteStore
    from supervisor.tools.jobs import job_kill, job_output, jobs
    from supervisor.tools.shell import shell

__all__ = [
    "AgentSpec",
    "Answer",
    "Approval",
    "Approve",
    "ApproverRule",
    "Channel",
    "ChatResult",
    "ChildRun",
    "Context",
    "CursorUnknown",
    "Decision",
    "DecisionResult",
    "Deny",
    "Fork",
    "InvalidInput",
    "JournalEntry",
    "LaterCall",
    "LimitExceeded",
    "MemoryStore",
    "Message",
    "NotAuthenticated",
    "NotEntitled",
    "NotFound",
    "Option",
    "Outcome",
    "Owner",
    "People",
    "Person",
    "Policy",
    "QuestionUnanswered",
    "Rule",
    "Run",
    "RunAbandoned",
    "RunBlocked",
    "RunCancelled",
    "RunError",
    "RunFailed",
    "RunStalled",
    "RunStopping",
    "SendResult",
    "ServerError",
    "ServerMismatch",
    "ServerUnavailable",
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
    "TokenHash",
    "ToolCall",
    "ToolContext",
    "ToolFailed",
    "ToolResult",
    "ToolSpec",
    "TreeOwned",
    "UnknownAgent",
    "Webhook",
    "WebhookReply",
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

if not TYPE_CHECKING:  # who checks types knows the names by the imports above
    _NAMES = {
        "supervisor.abc": """
            Channel ChildRun Context JournalEntry Owner Run Store Supervisor TaskGroup Timer Webhook WebhookReply
        """,
        "supervisor.app": "open_supervisor",
        "supervisor.channels.terminal": "Terminal",
        "supervisor.core.agent_spec": "AgentSpec agent",
        "supervisor.core.errors": """
            CursorUnknown InvalidInput LimitExceeded NotAuthenticated NotEntitled NotFound QuestionUnanswered
            RunAbandoned RunBlocked RunCancelled RunError RunFailed RunStalled RunStopping ServerError ServerMismatch
            ServerUnavailable SessionConflict StepFailed StoreDied StoreError StoreRefused StoreUnreadable
            SupervisorError Suspended ToolFailed TreeOwned UnknownAgent
        """,
        "supervisor.core.people": "People Person ApproverRule TokenHash",
        "supervisor.core.rules": "Rule allow ask_for deny",
        "supervisor.core.tool_spec": "ToolSpec tool",
        "supervisor.core.toolcontext": "ToolContext",
        "supervisor.core.values": """
            Answer Approval Approve Decision DecisionResult Deny Fork LaterCall Message Option Outcome Policy SendResult
            SessionView ToolCall ToolResult
        """,
        "supervisor.core.words": "ChatResult",
        "supervisor.store.memory_store": "MemoryStore",
        "supervisor.store.sqlite": "SqliteStore",
        "supervisor.tools.jobs": "job_kill job_output jobs",
        "supervisor.tools.shell": "shell",
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        """Import a public name, the first time that it is asked for."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return found

    def __dir__() -> list[str]:
        """Return every name, asked for or not."""
        return sorted({*globals(), *__all__})
