"""Tools that come with the package: `shell` and its background jobs; the context of a tool that starts processes."""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.core.declarations.tool_context import ProcessToolContext
    from supervisor.tools.command import shell
    from supervisor.tools.job_talk import job_send, job_wait
    from supervisor.tools.session_jobs import job_kill, job_output, jobs

__all__ = [
    "ProcessToolContext",
    "job_kill",
    "job_output",
    "job_send",
    "job_wait",
    "jobs",
    "shell",
]

if not TYPE_CHECKING:  # a type checker reads the imports above
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "supervisor.core.declarations.tool_context": "ProcessToolContext",
            "supervisor.tools.command": "shell",
            "supervisor.tools.job_talk": "job_send job_wait",
            "supervisor.tools.session_jobs": "job_kill job_output jobs",
        },
    )
