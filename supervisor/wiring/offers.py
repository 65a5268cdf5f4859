"""What a daemon offers, in a file of its store on this machine: so a command next to it can start an agent by name.

Theory: who can write the store may start agents on it, and needs no token for that. The command loads the agent from
where the daemon loaded it, and writes the session's first entries. The daemon adopts the session as each other one that
no process runs (R2).

Rules
- The file (STORE.daemon, mode 0600) names modules and files that a command imports. One that others can write is
  refused, as the store itself is.
- A daemon is alive if a process with its pid and its start lives here. One in another container is not seen, so nothing
  is left to it: `start` asks it through --server.
- With several daemons of a store, the one that was started last is found. Each removes its own file only.
- A daemon that cannot write the file serves all the same: only `start` next to the store misses it.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from supervisor.core.errors import StoreUnreadable
from supervisor.core.rows import Process
from supervisor.system.access import OTHERS_WRITE, why_not_ours
from supervisor.system.inside import identify, itself
from supervisor.system.logs import FactLog

log = FactLog(__name__)

ENDING: Final = ".daemon"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agents of a daemon come from."""

    references: tuple[str, ...] = ()
    """Files and modules, as they were given. Files are relative to `folder`."""
    config: str | None = None
    folder: str = ""
    modules: tuple[str, ...] = ()
    """The folders in which modules are searched for."""
    process: Process | None = None

    @property
    def is_alive(self) -> bool:
        return self.process is not None and identify(self.process[0]) == self.process

    def files(self) -> tuple[str, ...]:
        """Return the references, with absolute paths."""
        return tuple(_absolute(self.folder, each) for each in self.references)


def _absolute(folder: str, reference: str) -> str:
    where = reference.partition(":")[0]
    is_file = where.endswith(".py") or "/" in where
    return os.path.join(folder, reference) if is_file else reference  # noqa: PTH118 # a reference, not a path


@contextmanager
def published(store: Path, offer: Offer) -> Iterator[None]:
    """Say in the file what this process offers, as long as the context is open."""
    path, mine = _path(store), msgspec.structs.replace(offer, process=itself())
    written = msgspec.json.encode(mine)
    try:
        _write(path, written)
    except OSError as error:
        log.warning("offer.not_written", file=str(path), reason=error.strerror)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_bytes() == written:
                path.unlink()


def find_offer(store: Path) -> Offer | None:
    """Return what the living daemon of a store offers; None if there is none. Raises StoreUnreadable for a file that
    others can write."""
    path = _path(store)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Offer)
        why = why_not_ours(path, OTHERS_WRITE)
    except (OSError, msgspec.MsgspecError):  # removed, or of another version: as if no daemon had told
        return None
    if not found.is_alive:
        return None
    if why is not None:
        raise StoreUnreadable(f"{why}. It says which agents are imported; nothing was started")
    return found


def _path(store: Path) -> Path:
    return store.with_name(f"{store.name}{ENDING}")


def _write(path: Path, content: bytes) -> None:
    """Replace the file at once, so that no reader sees a part of it."""
    made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        made.replace(path)
    except OSError:
        with suppress(OSError):
            made.unlink()
        raise
