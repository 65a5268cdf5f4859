"""Tools that come with the package: `shell` and its background jobs; the context of a tool that starts processes."""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.core.declarations.tool_context import ProcessToolContext as ProcessToolContext
    from supervisor.tools.command import shell as shell
    from supervisor.tools.job_talk import job_send as job_send, job_wait as job_wait
    from supervisor.tools.session_jobs import job_kill as job_kill, job_output as job_output, jobs as jobs

if not TYPE_CHECKING:  # a type checker reads the imports above
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "supervisor.core.declarations.tool_context": "ProcessToolContext",
            "supervisor.tools.command": "shell",
            "supervisor.tools.job_talk": "job_send job_wait",
            "supervisor.tools.session_jobs": "job_kill job_output jobs",
        },
    )
