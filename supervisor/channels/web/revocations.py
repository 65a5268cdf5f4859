"""Revoked tokens and ended logins, which are invalid although they have not expired.

Theory: the server keeps no cookies, and a token is a hash in the configuration, so revocations need a record of their
own. It is a file next to the store with one JSON line for each, appended and synced before the client gets its answer;
a store that machines share has a book for these lines. Every process that serves the store reads the new lines.

Rules
- A revocation lasts, even if the file is removed while a daemon runs.
- While a line cannot be read, every request is refused: the line may be a revocation (fail closed).
"""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio
import msgspec

from supervisor.core.errors import StoreError, StoreUnreadable
from supervisor.seam.store import Book, StoreAway
from supervisor.system.access import OTHERS_WRITE, why_not_ours
from supervisor.system.threads import in_thread

LOOK_SECONDS: Final = 0.5
"""Seconds between two reads of the file on behalf of streams, which make no new requests."""


class Revocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the file: a token's hash, or a login's nonce and the expiry of its cookie."""

    token: str | None = None
    login: str | None = None
    until: datetime | None = None
    at: datetime
    by: str


class Revocations:
    """The revocations of one store. `lines`: its file or its book; None keeps them in memory."""

    def __init__(self, lines: Path | Book | None = None) -> None:
        self._file = lines if isinstance(lines, Path) else None
        self._book = None if isinstance(lines, Path) else lines
        self._size = 0  # of the file, or the number of the last line in the book
        self._known: set[str] = set()
        self._changed = anyio.Event()

    def __contains__(self, shown: str | None) -> bool:
        """Whether a token's hash, or a login's nonce, was revoked. Raises StoreUnreadable, StoreRefused."""
        self.refresh()
        return shown in self._known

    def refresh(self) -> None:
        """Read the lines that other processes have added. Raises StoreUnreadable, StoreRefused."""
        if self._book is not None:
            for number, line in self._book.read(self._size):
                self._learn(self._read(line, number))
                self._size = number
        if self._file is None:
            return
        try:
            size = self._file.stat().st_size
            if size == self._size:
                return
            if (why := why_not_ours(self._file, OTHERS_WRITE)) is not None:
                raise StoreUnreadable(f"{why}. It lists revoked tokens and logins, so every request is refused now")
            raw = self._file.read_bytes()
        except FileNotFoundError:
            return
        *whole, torn = raw.split(b"\n")  # the revocation of a torn end was never acknowledged
        for number, line in enumerate(whole, 1):
            self._learn(self._read(line, number))
        self._size = size if not torn else 0

    def add(self, revoked: Revocation) -> None:
        """Write a revocation; return when it is on disk. Raises OSError, StoreUnreadable, StoreRefused."""
        if self._book is not None:
            self._book.add([msgspec.json.encode(revoked)])
        elif self._file is not None:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "r+b") as file:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                size = file.seek(0, os.SEEK_END)
                is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                if is_torn:  # its writer was killed, and never acknowledged it
                    whole = os.pread(descriptor, size, 0).rfind(b"\n") + 1
                    os.ftruncate(descriptor, whole)
                os.write(descriptor, msgspec.json.encode(revoked) + b"\n")
                os.fsync(descriptor)
                self._give(descriptor)
            _sync_folder(self._file.parent)
        self._learn(revoked)

    async def add_soon(self, revoked: Revocation) -> None:
        """Do the same in a worker thread; a cancellation is delivered after it."""
        with anyio.CancelScope(shield=True):
            await in_thread(self.add, revoked)
        self._tell()

    async def watch(self) -> None:
        """Read the lines that other processes add, until cancelled."""
        while self._file is not None or self._book is not None:
            await anyio.sleep(LOOK_SECONDS)
            before = len(self._known)
            try:
                self.refresh()
            except StoreAway:
                continue  # requests are refused meanwhile; streams go on
            except StoreError:
                self._tell()  # from now on every request is refused
            if len(self._known) > before:
                self._tell()

    async def until_changed(self) -> None:
        """Wait until something more is revoked."""
        await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _give(self, descriptor: int) -> None:
        """Give a file that root writes to the owner of the store, who has to read it."""
        assert self._file is not None
        store = self._file.with_suffix("")
        if os.geteuid() == 0 and store.exists():
            os.fchown(descriptor, store.stat().st_uid, store.stat().st_gid)

    def _learn(self, revoked: Revocation) -> None:
        if revoked.until is None or revoked.until > datetime.now(UTC):
            self._known.update(each for each in (revoked.token, revoked.login) if each is not None)

    def _read(self, line: bytes, number: int) -> Revocation:
        try:
            return msgspec.json.decode(line, type=Revocation)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise StoreUnreadable(
                f"{self._file or 'the table `line` of the store'} lists what was revoked, and its line {number} is "
                "unreadable: every request is refused; correct the line, or move the file away and revoke again"
            ) from None


def revocations_of(store: Path) -> Path:
    """Return the file of a store's revocations."""
    return store.with_name(f"{store.name}.revoked")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
