"""Sub-agents under a watchdog that waits for people: durable approvals, structured cancellation, no call without a
result.

A name is imported at its first use: a command needs few of them, so it answers sooner and can be stopped meanwhile.
"""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.client import open_remote as open_remote
    from supervisor.core.approvals.chat_words import ChatResult as ChatResult
    from supervisor.core.approvals.people import (
        ApproverRule as ApproverRule,
        People as People,
        Person as Person,
        Quiet as Quiet,
        TokenHash as TokenHash,
        UrgencyRule as UrgencyRule,
    )
    from supervisor.core.blocking import Block as Block
    from supervisor.core.budgets import Budget as Budget
    from supervisor.core.calls.rules import Rule as Rule, allow as allow, ask as ask, deny as deny
    from supervisor.core.declarations.agent_spec import AgentSpec as AgentSpec, agent as agent
    from supervisor.core.declarations.foreign_tool import foreign_tool as foreign_tool
    from supervisor.core.declarations.previews import Preview as Preview, PreviewContext as PreviewContext
    from supervisor.core.declarations.tool_context import StepContext as StepContext, ToolContext as ToolContext
    from supervisor.core.declarations.tool_spec import ToolSpec as ToolSpec, tool as tool
    from supervisor.core.errors import (
        CursorUnknown as CursorUnknown,
        InvalidInput as InvalidInput,
        LimitExceeded as LimitExceeded,
        NotAuthenticated as NotAuthenticated,
        NotEntitled as NotEntitled,
        NotFound as NotFound,
        QuestionUnanswered as QuestionUnanswered,
        RetryAfter as RetryAfter,
        RunAbandoned as RunAbandoned,
        RunBlocked as RunBlocked,
        RunCancelled as RunCancelled,
        RunError as RunError,
        RunFailed as RunFailed,
        RunStalled as RunStalled,
        RunStopping as RunStopping,
        ServerError as ServerError,
        ServerMismatch as ServerMismatch,
        ServerUnavailable as ServerUnavailable,
        SessionConflict as SessionConflict,
        StepFailed as StepFailed,
        StoreDied as StoreDied,
        StoreError as StoreError,
        StoreRefused as StoreRefused,
        StoreUnreadable as StoreUnreadable,
        SupervisorError as SupervisorError,
        Suspended as Suspended,
        ToolFailed as ToolFailed,
        TreeOwned as TreeOwned,
        UnknownAgent as UnknownAgent,
    )
    from supervisor.core.ids import id_from as id_from
    from supervisor.core.limits import Limit as Limit, LimitWait as LimitWait
    from supervisor.core.rows import (
        Counts as Counts,
        JournalEntry as JournalEntry,
        Owner as Owner,
        TreeView as TreeView,
    )
    from supervisor.core.schedules import Schedule as Schedule, ScheduleView as ScheduleView
    from supervisor.core.sessions.activity import Activity as Activity, Doing as Doing, StreamedText as StreamedText
    from supervisor.core.sessions.trees import (
        KeptTree as KeptTree,
        Origin as Origin,
        PrunableTree as PrunableTree,
        PruneResult as PruneResult,
    )
    from supervisor.core.usage import Spent as Spent, Usage as Usage, UsagePart as UsagePart, UsageReport as UsageReport
    from supervisor.core.values import (
        AgentView as AgentView,
        Allowance as Allowance,
        Answer as Answer,
        Approval as Approval,
        Approve as Approve,
        Decision as Decision,
        DecisionResult as DecisionResult,
        Deny as Deny,
        Evidence as Evidence,
        Fork as Fork,
        HushedBy as HushedBy,
        JobView as JobView,
        LaterCall as LaterCall,
        Message as Message,
        Option as Option,
        Outcome as Outcome,
        Policy as Policy,
        SendResult as SendResult,
        SessionView as SessionView,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        Vote as Vote,
    )
    from supervisor.seam.context import Context as Context, Operations as Operations
    from supervisor.seam.runs import (
        ActivityWatch as ActivityWatch,
        ChildRun as ChildRun,
        Page as Page,
        Run as Run,
        SessionImport as SessionImport,
        TaskGroup as TaskGroup,
        TextWatch as TextWatch,
        Timer as Timer,
        Watch as Watch,
    )
    from supervisor.seam.supervisor import StoreSupervisor as StoreSupervisor, Supervisor as Supervisor
    from supervisor.store.memory import MemoryStore as MemoryStore
    from supervisor.store.sqlite.store import SqliteStore as SqliteStore
    from supervisor.system.loading import load_agent as load_agent
    from supervisor.transcripts.messages import repair_messages as repair_messages
    from supervisor.wiring.app import open_supervisor as open_supervisor

if not TYPE_CHECKING:  # a type checker knows the names by the imports above
    __all__, __getattr__, __dir__ = lazily(
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
