"""What the tests of recorded stores share: where the crossings are, copies of them, and a person who decides."""

import gzip
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from supervisor import Answer, Approve, SessionView, SqliteStore, StoreSupervisor, open_supervisor
from supervisor.store.postgres.store import PostgresStore

RECORDED = Path(__file__).parent / "recorded"
CROSSINGS = sorted(each.name for each in RECORDED.iterdir())
RELEASE = {"channel": "beta", "version": "1.2.3", "on": "2026-11-24", "copies": 2, "loud": True}
ANSWERS = {"Which environment?": "production", "Which one?": "staging", "Which release?": RELEASE}

MESSAGES = ("always-rule", "session-rule", "talk")
"""The sessions that wait for a message."""


def unpacked(crossing: str, name: str, folder: Path) -> Path:
    """Copy a recorded store into a folder, and return its path."""
    path = folder / f"{name}.db"
    path.write_bytes(gzip.decompress((RECORDED / crossing / f"{name}.db.gz").read_bytes()))
    path.chmod(0o600)
    return path


def moved_to(url: str, path: Path) -> str:
    """Write the journals of a recorded store into one on PostgreSQL, and return its URL."""
    source, target = SqliteStore(path), PostgresStore(url)
    for store in (source, target):
        store.open()
    assert target.begin()
    target.write(source.rows(0))
    target.commit()
    for store in (source, target):
        store.close()
    return url


def document(crossing: str, name: str) -> Any:
    """Return a recorded document."""
    return json.loads(gzip.decompress((RECORDED / crossing / f"{name}.json.gz").read_bytes()))


@asynccontextmanager
async def opened(path: Path | str, **options: Any) -> AsyncIterator[StoreSupervisor]:
    """Open a store with today's code. A test that hangs fails after a minute."""
    with anyio.fail_after(60):
        async with open_supervisor(path, create=False, **options) as supervisor:
            yield supervisor


def statuses(views: Iterable[SessionView]) -> set[tuple[str, str]]:
    return {(view.id, view.status) for view in views}


async def decide_all(supervisor: StoreSupervisor) -> None:
    """Approve each call, and answer each question that has an answer here."""
    async with supervisor.watch_approvals() as watch:
        async for approval in watch:
            if approval.kind == "call":
                await supervisor.decide(approval.id, Approve(by="ana"))
            elif approval.question in ANSWERS:
                await supervisor.decide(approval.id, Answer(by="ana", value=ANSWERS[approval.question]))
