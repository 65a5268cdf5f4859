"""Sub-agents under a watchdog that waits for people: durable approvals, structured cancellation, no call without a
result.

A name is imported at its first use: a command needs few of them, so it answers sooner and can be stopped meanwhile.
"""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.client import open_remote
    from supervisor.core.approvals.chat_words import ChatResult
    from supervisor.core.approvals.people import ApproverRule, People, Person, Quiet, TokenHash, UrgencyRule
    from supervisor.core.blocking import Block
    from supervisor.core.budgets import Budget
    from supervisor.core.calls.rules import Rule, allow, ask, deny
    from supervisor.core.declarations.agent_spec import AgentSpec, agent
    from supervisor.core.declarations.foreign_tool import foreign_tool
    from supervisor.core.declarations.previews import Preview, PreviewContext
    from supervisor.core.declarations.tool_context import StepContext, ToolContext
    from supervisor.core.declarations.tool_spec import ToolSpec, tool
    from supervisor.core.errors import (
        CursorUnknown,
        InvalidInput,
        LimitExceeded,
        NotAuthenticated,
        NotEntitled,
        NotFound,
        QuestionUnanswered,
        RetryAfter,
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
    from supervisor.core.ids import id_from
    from supervisor.core.limits import Limit, LimitWait
    from supervisor.core.rows import Counts, JournalEntry, Owner, TreeView
    from supervisor.core.schedules import Schedule, ScheduleView
    from supervisor.core.sessions.activity import Activity, Doing, StreamedText
    from supervisor.core.sessions.trees import KeptTree, Origin, PrunableTree, PruneResult
    from supervisor.core.usage import Spent, Usage, UsagePart, UsageReport
    from supervisor.core.values import (
        AgentView,
        Allowance,
        Answer,
        Approval,
        Approve,
        Decision,
        DecisionResult,
        Deny,
        Evidence,
        Fork,
        HushedBy,
        JobView,
        LaterCall,
        Message,
        Option,
        Outcome,
        Policy,
        SendResult,
        SessionView,
        ToolCall,
        ToolResult,
        Vote,
    )
    from supervisor.seam.context import Context, Operations
    from supervisor.seam.runs import (
        ActivityWatch,
        ChildRun,
        Page,
        Run,
        SessionImport,
        TaskGroup,
        TextWatch,
        Timer,
        Watch,
    )
    from supervisor.seam.supervisor import StoreSupervisor, Supervisor
    from supervisor.store.memory import MemoryStore
    from supervisor.store.sqlite.store import SqliteStore
    from supervisor.system.loading import load_agent
    from supervisor.transcripts.messages import repair_messages
    from supervisor.wiring.app import open_supervisor

__all__ = [
    "Activity",
    "ActivityWatch",
    "AgentSpec",
    "AgentView",
    "Allowance",
    "Answer",
    "Approval",
    "Approve",
    "ApproverRule",
    "Block",
    "Budget",
    "ChatResult",
    "ChildRun",
    "Context",
    "Counts",
    "CursorUnknown",
    "Decision",
    "DecisionResult",
    "Deny",
    "Doing",
    "Evidence",
    "Fork",
    "HushedBy",
    "InvalidInput",
    "JobView",
    "JournalEntry",
    "KeptTree",
    "LaterCall",
    "Limit",
    "LimitExceeded",
    "LimitWait",
    "MemoryStore",
    "Message",
    "NotAuthenticated",
    "NotEntitled",
    "NotFound",
    "Operations",
    "Option",
    "Origin",
    "Outcome",
    "Owner",
    "Page",
    "People",
    "Person",
    "Policy",
    "Preview",
    "PreviewContext",
    "PrunableTree",
    "PruneResult",
    "QuestionUnanswered",
    "Quiet",
    "RetryAfter",
    "Rule",
    "Run",
    "RunAbandoned",
    "RunBlocked",
    "RunCancelled",
    "RunError",
    "RunFailed",
    "RunStalled",
    "RunStopping",
    "Schedule",
    "ScheduleView",
    "SendResult",
    "ServerError",
    "ServerMismatch",
    "ServerUnavailable",
    "SessionConflict",
    "SessionImport",
    "SessionView",
    "Spent",
    "SqliteStore",
    "StepContext",
    "StepFailed",
    "StoreDied",
    "StoreError",
    "StoreRefused",
    "StoreSupervisor",
    "StoreUnreadable",
    "StreamedText",
    "Supervisor",
    "SupervisorError",
    "Suspended",
    "TaskGroup",
    "TextWatch",
    "Timer",
    "TokenHash",
    "ToolCall",
    "ToolContext",
    "ToolFailed",
    "ToolResult",
    "ToolSpec",
    "TreeOwned",
    "TreeView",
    "UnknownAgent",
    "UrgencyRule",
    "Usage",
    "UsagePart",
    "UsageReport",
    "Vote",
    "Watch",
    "agent",
    "allow",
    "ask",
    "deny",
    "foreign_tool",
    "id_from",
    "load_agent",
    "open_remote",
    "open_supervisor",
    "repair_messages",
    "tool",
]

if not TYPE_CHECKING:  # a type checker knows the names by the imports above
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "supervisor.core.schedules": "Schedule ScheduleView",
            "supervisor.core.rows": "Counts JournalEntry Owner TreeView",
            "supervisor.seam.runs": "ActivityWatch ChildRun Page Run SessionImport TaskGroup TextWatch Timer Watch",
            "supervisor.seam.context": "Context Operations",
            "supervisor.seam.supervisor": "StoreSupervisor Supervisor",
            "supervisor.wiring.app": "open_supervisor",
            "supervisor.client": "open_remote",
            "supervisor.core.sessions.activity": "Activity Doing StreamedText",
            "supervisor.core.declarations.agent_spec": "AgentSpec agent",
            "supervisor.core.blocking": "Block",
            "supervisor.core.budgets": "Budget",
            "supervisor.core.errors": """
                CursorUnknown InvalidInput LimitExceeded NotAuthenticated NotEntitled NotFound QuestionUnanswered
                RetryAfter RunAbandoned RunBlocked RunCancelled RunError RunFailed RunStalled RunStopping ServerError
                ServerMismatch ServerUnavailable SessionConflict StepFailed StoreDied StoreError StoreRefused
                StoreUnreadable SupervisorError Suspended ToolFailed TreeOwned UnknownAgent
            """,
            "supervisor.core.declarations.foreign_tool": "foreign_tool",
            "supervisor.core.declarations.previews": "Preview PreviewContext",
            "supervisor.core.ids": "id_from",
            "supervisor.core.limits": "Limit LimitWait",
            "supervisor.system.loading": "load_agent",
            "supervisor.core.approvals.people": "ApproverRule People Person Quiet TokenHash UrgencyRule",
            "supervisor.core.calls.rules": "Rule allow ask deny",
            "supervisor.core.declarations.tool_spec": "ToolSpec tool",
            "supervisor.core.declarations.tool_context": "StepContext ToolContext",
            "supervisor.core.sessions.trees": "KeptTree Origin PrunableTree PruneResult",
            "supervisor.core.values": """
                AgentView Allowance Answer Approval Approve Decision DecisionResult Deny Evidence Fork HushedBy JobView
                LaterCall Message Option Outcome Policy SendResult SessionView ToolCall ToolResult Vote
            """,
            "supervisor.core.usage": "Spent Usage UsagePart UsageReport",
            "supervisor.core.approvals.chat_words": "ChatResult",
            "supervisor.store.memory": "MemoryStore",
            "supervisor.store.sqlite.store": "SqliteStore",
            "supervisor.transcripts.messages": "repair_messages",
        },
    )
