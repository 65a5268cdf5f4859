"""What the runtime needs of background jobs: where their folders lie, and whom to tell that one has begun.

The jobs themselves, processes and logs, are a tool's business, a floor above; this is the seam between.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from supervisor.core.events import JobStarted


class Jobs(Protocol):
    def folder(self) -> str:
        """Return the folder that holds a folder for each job. Raises OSError if there can be none."""

    def began(self, session: str, job: JobStarted) -> None:
        """A job is on disk and about to begin."""

    def untold(self) -> Iterable[str]:
        """Return the sessions that have a job whose end they were not told; of every tree, this process's or not."""

    def take_up(self, root: str) -> None:
        """A tree has become ours: watch its jobs again."""

    def clear_logs(self, is_gone: Callable[[str], bool], *, dry_run: bool) -> tuple[int, int]:
        """Remove the logs of jobs whose session is gone; return how many jobs they are of, and their bytes.

        `dry_run`: count them, and remove nothing.
        """

    async def run(self) -> None:
        """Watch the jobs until cancelled."""

    async def leave(self) -> None:
        """The supervisor is being left: end the jobs that end with it, within a bounded time."""


class NoJobs:
    """A supervisor without a place for jobs."""

    def folder(self) -> str:
        raise OSError("this supervisor has no place for background jobs")

    def began(self, session: str, job: JobStarted) -> None:
        raise AssertionError("a job has begun where none can be")

    def untold(self) -> Iterable[str]:
        return ()

    def take_up(self, root: str) -> None:
        pass

    def clear_logs(self, is_gone: Callable[[str], bool], *, dry_run: bool) -> tuple[int, int]:
        return 0, 0

    async def run(self) -> None:
        pass

    async def leave(self) -> None:
        pass
