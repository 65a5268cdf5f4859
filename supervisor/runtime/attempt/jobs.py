"""The protocol between the runtime and background jobs: the folder of the jobs, and the notice that one has begun.

A tool, in the layer above, keeps the jobs themselves: their processes and logs.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from supervisor.core.events import JobStarted
from supervisor.core.values import JobView


class Jobs(Protocol):
    def folder(self) -> str:
        """Return the folder that holds a folder for each job. Raises OSError if it cannot be made."""

    def began(self, session: str, job: JobStarted) -> None:
        """Watch a job that is on disk and about to begin."""

    async def look_at(self, job: JobView) -> JobView:
        """Return a job as its process is now: it may have ended before its end is journaled."""

    def untold(self) -> Iterable[str]:
        """Return the sessions, of all trees in the store, with a job whose end is not in their journal."""

    def recover(self, roots: Iterable[str]) -> None:
        """Watch the jobs of trees that this process has claimed."""

    def clear_logs(self, is_gone: Callable[[str], bool], *, dry_run: bool) -> tuple[int, int]:
        """Remove the logs of jobs whose session is gone; return how many jobs they are of, and their bytes.

        `dry_run`: count them, and remove nothing.
        """

    async def run(self) -> None:
        """Watch the jobs until cancelled."""

    async def leave(self) -> None:
        """End the jobs that end with the supervisor, within a bounded time. Called when it closes."""


class NoJobs:
    """A supervisor without a place for jobs."""

    def folder(self) -> str:
        raise OSError("this supervisor has no place for background jobs")

    def began(self, session: str, job: JobStarted) -> None:
        raise AssertionError("a job began in a supervisor without a folder for jobs")

    async def look_at(self, job: JobView) -> JobView:
        return job

    def untold(self) -> Iterable[str]:
        return ()

    def recover(self, roots: Iterable[str]) -> None:
        pass

    def clear_logs(self, is_gone: Callable[[str], bool], *, dry_run: bool) -> tuple[int, int]:
        return 0, 0

    async def run(self) -> None:
        pass

    async def leave(self) -> None:
        pass
