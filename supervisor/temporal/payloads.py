"""Large payloads: files in a folder that all workers and clients share, instead of documents in the server.

temporalio stores a payload with a driver, and sends only the driver's claim. This module is such a driver, so an object
store is another one.

Rules
- A file is named by the digest of its content. It is complete, and on disk, before the server hears of it.
- What is read must have the digest by which it was asked for.
- A payload whose file is missing is an error that names both. A workflow waits for a worker that has it, and a call has
  not begun.
- The folder is never made here: it may be a file system that is not mounted now.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError

from supervisor.core.errors import InvalidInput, ServerError
from supervisor.system.threads import in_thread
from supervisor.temporal.wire import INLINE_BYTES, LARGEST_BYTES, NOT_HERE

VARIABLE: Final = "SUPERVISOR_TEMPORAL_PAYLOADS"
NAME: Final = "supervisor.files"
LARGEST_STORED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of JSON that arguments or a result may have, where payloads are stored: as many as on one machine."""
_LARGEST_SENT_BYTES: Final = 2 * LARGEST_BYTES
"""Bytes of a payload that a server takes."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")


class PayloadMissing(ServerError, ApplicationError):
    """A payload is not where it was stored, or not in the folder of this process."""

    def __init__(self, text: str) -> None:
        ApplicationError.__init__(self, text, type=NOT_HERE)


class PayloadFolder(StorageDriver):
    """Stores payloads as files. Raises InvalidInput if the folder does not exist, or cannot be written."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_absolute():
            raise InvalidInput(f"{VARIABLE}: {folder} is relative; write an absolute path, the same for every process")
        if not folder.is_dir():
            raise InvalidInput(
                f"{VARIABLE}: there is no folder {folder}; make it, or mount the file system that has it"
            )
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise InvalidInput(f"{VARIABLE}: this process may not read and write in {folder}")
        self._folder = folder

    def name(self) -> str:
        return NAME

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        return [
            StorageDriverClaim({"sha256": await in_thread(self._write, each.SerializeToString(deterministic=True))})
            for each in payloads
        ]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        return [Payload.FromString(await in_thread(self._read, each.claim_data.get("sha256", ""))) for each in claims]

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def _write(self, content: bytes) -> str:
        """Write a file, unless it is there. It is younger afterwards, so that a clean-up by age leaves it alone."""
        digest = sha256(content).hexdigest()
        path = self._path(digest)
        try:
            if path.stat().st_size == len(content):
                os.utime(path)
                _sync(path.parent)  # another process may have written it just now
                return digest
        except FileNotFoundError:
            pass
        try:
            self._write_new(path, content)
        except OSError as error:
            raise ServerError(
                f"a payload of {len(content)} bytes cannot be written to {self._folder}: {error.strerror}"
            ) from None
        return digest

    def _write_new(self, path: Path, content: bytes) -> None:
        mode = self._folder.stat().st_mode  # files are as readable as the folder, with any umask
        if not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            path.parent.chmod(mode & 0o7777)
        _sync(self._folder)
        descriptor, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(descriptor, mode & 0o666)
                os.fsync(descriptor)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync(path.parent)

    def _read(self, digest: str) -> bytes:
        if _DIGEST.fullmatch(digest) is None:
            raise PayloadMissing("a payload has a claim that this version cannot read")
        path = self._path(digest)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise PayloadMissing(
                f"a payload cannot be read from {path}: {error.strerror}; every worker and client needs the "
                f"same folder in {VARIABLE}"
            ) from None
        if sha256(content).hexdigest() != digest:
            raise PayloadMissing(f"the payload in {path} was changed: restore the file from a backup")
        return content


class NamedDriver(StorageDriver):
    """A driver of the user, which may raise anything. Its errors become ours, in one line, with its name."""

    def __init__(self, driver: StorageDriver, named: str) -> None:
        self._driver = driver
        self._named = named

    def name(self) -> str:
        return self._driver.name()

    def type(self) -> str:
        return self._driver.type()

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        try:
            return await self._driver.store(context, payloads)
        except Exception as error:
            raise ServerError(self._says("store", error)) from error

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        try:
            return await self._driver.retrieve(context, claims)
        except Exception as error:
            raise PayloadMissing(self._says("read", error)) from error

    def _says(self, what: str, error: Exception) -> str:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return f"{VARIABLE}: {self._named} cannot {what} a payload: {text}"


class _Nowhere(StorageDriver):
    """Stands where no folder is named: it says so when one is needed."""

    def name(self) -> str:
        return NAME

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        raise InvalidInput(
            f"a payload of {max(each.ByteSize() for each in payloads)} bytes is too large for a Temporal server, which "
            f"takes {_LARGEST_SENT_BYTES}: name a folder that workers and clients share in {VARIABLE}"
        )

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        raise PayloadMissing(f"a payload is in a file, and {VARIABLE} does not name the folder that has it")


def storage_of(driver: StorageDriver | None) -> ExternalStorage:
    """Return where large payloads are stored. None: nowhere; those that a server refuses are refused here."""
    if driver is not None:
        return ExternalStorage(drivers=[driver], payload_size_threshold=INLINE_BYTES)
    return ExternalStorage(drivers=[_Nowhere()], payload_size_threshold=_LARGEST_SENT_BYTES)


def largest_for(client: Client) -> int:
    """Return how many bytes of JSON the arguments or a result may have in trees that a client starts."""
    storage = client.data_converter.external_storage
    return LARGEST_BYTES if storage is None or isinstance(storage.drivers[0], _Nowhere) else LARGEST_STORED_BYTES


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
