"""Replacing a session by its repaired version.

Theory: at every instant the file's name leads to the whole old file or to the whole new one. The new file is written
under another name, synced, and renamed over the old one. The old one stays next to it under a third name, which costs
no copy.

Rules:
- We hold a lock that other writers know (OpenClaw's). We take it before we judge the file, and release it in every
  case. It dies with its process: the lock of a process that is gone is taken over.
- Existing lines are copied from the file, byte by byte, never from decoded values.
- A file that changed since it was judged is not replaced.
- Mode and owner are kept. A link is followed, and the file to which it leads is replaced. A read-only file is left
  alone.
- A crash may leave: the temporary file, which the next repair overwrites; a stale lock, and perhaps its second name,
  which the next repair removes; an extra backup.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from supervisor.transcripts.formats import Plan, iso
from supervisor.transcripts.liveness import is_alive, is_stale, lock_path, own_starttime, read_lock
from supervisor.transcripts.session import ChangedError, Reader, RefusedError, Session, Stamp

_BLOCK_BYTES = 1 << 18


class Written(NamedTuple):
    target: Path
    backup: Path | None
    """The path of the old file; None if a copy was written and the file itself was left alone."""
    torn: Path | None
    """The path to which torn lines were moved that stopped the maker's reader."""


@contextmanager
def locked(real: Path, now: datetime) -> Iterator[None]:
    """Hold the lock next to a session, or refuse with the name of its holder."""
    lock = lock_path(real)
    own = real.with_name(f"{real.name}.lock-{os.getpid()}")
    try:
        _sweep(lock)
        own.unlink(missing_ok=True)  # of a killed process with our pid: it may be a second name of the lock
        said = {"pid": os.getpid(), "createdAt": iso(now), "starttime": own_starttime()}
        try:
            own.write_bytes(msgspec.json.encode(said))
            _take(own, lock)
        finally:
            own.unlink(missing_ok=True)
    except OSError as error:
        raise RefusedError(f"{real} cannot be locked: {error.strerror} ({error.filename or own})") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _sweep(lock: Path) -> None:
    """Remove the second names of this lock whose processes died before they could."""
    second_name = re.compile(re.escape(lock.name) + r"-(\d{1,9})(?:-stale)?")
    for file in lock.parent.iterdir():
        if (named := second_name.fullmatch(file.name)) and (pid := int(named[1])):
            found = read_lock(file)
            if not is_alive(pid, found.starttime if found and found.pid == pid else None):
                file.unlink(missing_ok=True)


def _take(own: Path, lock: Path) -> None:
    for _ in range(3):
        try:
            os.link(own, lock)  # creates the lock with its content, in one step
        except FileExistsError:
            pass
        else:
            return
        found = read_lock(lock)
        if found is not None and not is_stale(found):
            holder = f"pid {found.pid}" if found.pid else "a lock that names no process; delete it if nothing runs"
            raise RefusedError(f"{lock} is held by {holder}")
        aside = own.with_name(own.name + "-stale")
        with suppress(FileNotFoundError):
            lock.rename(aside)
            taken = read_lock(aside)
            if taken is not None and not is_stale(taken):  # another process was faster, and this lock is its own
                aside.rename(lock)
            else:
                aside.unlink()
    raise RefusedError(f"{lock} is taken by other processes again and again; try again")


def check_writable(session: Session) -> None:
    """Refuse a file that its owner, its folder or its file system protects."""
    mode = session.real.stat().st_mode
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(session.real, os.W_OK):
        raise RefusedError(f"{session.path} is read-only; allow writing (chmod u+w) if it is to be repaired")
    if not os.access(session.real.parent, os.W_OK | os.X_OK):
        raise RefusedError(
            f"{session.real.parent} is read-only, but the repair writes next to the session; allow it (chmod u+w)"
        )


def copy_path(session: Session) -> Path:
    """Return the path of the repaired copy: a name that neither its maker nor a later repair takes for a session."""
    name = session.real.name
    if session.is_compressed:
        return session.real.with_name(name.removesuffix(".zst") + ".repaired.zst")
    return session.real.with_name(name + ".repaired")


def write_plan(session: Session, plan: Plan, now: datetime, *, as_copy: bool) -> Written:
    """Write the repaired file; the caller holds its lock."""
    target = copy_path(session) if as_copy else session.real
    temporary = session.real.with_name(session.real.name + ".repair-tmp")
    torn = None
    try:
        with session.open() as lines:
            _write_temporary(session, plan, lines, temporary)
            if plan.moves:
                torn = session.real.with_name(session.real.name + ".torn")
                _add(torn, b"".join(lines.raw(at) + b"\n" for at in sorted(plan.moves)))
        backup = None if as_copy else _keep_backup(session, now)
        if Stamp.of(session.real.stat()) != session.stamp:
            if backup is not None:
                backup.unlink()
            raise ChangedError(f"{session.path} changed while it was being repaired; run the repair again")
        temporary.replace(target)
        _sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
    return Written(target, backup, torn)


def repaired(session: Session, plan: Plan, lines: Reader) -> Iterator[bytes]:
    """Yield the bytes of the repaired file."""
    end_of_line = b"\r\n" if session.has_crlf else b"\n"
    after: dict[int, list[bytes]] = defaultdict(list)
    for addition in plan.additions:
        if addition.after is not None:
            after[addition.after].append(addition.line)
    position = 0
    is_terminated = True
    left_out = plan.drops | plan.moves
    for at in sorted({*after, *plan.changes, *left_out}):
        begin, end = session.index.starts[at], lines.end(at)
        yield from _bytes(lines, position, begin)
        line = lines.raw(at)
        terminator = _exactly(lines, begin + len(line), end)
        if at in plan.changes:
            yield plan.changes[at] + terminator
        elif at not in left_out:
            yield line + terminator
        is_terminated = bool(terminator) or at in left_out
        for added in after[at]:
            yield (b"" if is_terminated else end_of_line) + added + end_of_line
            is_terminated = True
        position = end
    if position < session.size:
        yield from _bytes(lines, position, session.size)
        is_terminated = session.is_terminated
    for addition in plan.additions:
        if addition.after is None:
            yield (b"" if is_terminated else end_of_line) + addition.line + end_of_line
            is_terminated = True


def _bytes(lines: Reader, begin: int, end: int) -> Iterator[bytes]:
    lines.file.seek(begin)
    while begin < end:
        block = lines.file.read(min(_BLOCK_BYTES, end - begin))
        if not block:
            raise ChangedError("the file became shorter while it was being repaired; run the repair again")
        begin += len(block)
        yield block


def _exactly(lines: Reader, begin: int, end: int) -> bytes:
    return b"".join(_bytes(lines, begin, end))


def _write_temporary(session: Session, plan: Plan, lines: Reader, temporary: Path) -> None:
    temporary.unlink(missing_ok=True)
    was = session.real.stat()
    with open(temporary, "xb", opener=_privately) as file:
        content = repaired(session, plan, lines)
        if session.is_compressed:
            _compress(content, file)
        else:
            file.writelines(content)
        file.flush()
        if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
            try:
                os.fchown(file.fileno(), was.st_uid, was.st_gid)
            except PermissionError:
                raise RefusedError(f"{session.path} belongs to another user or group; repair it as its owner") from None
        os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
        os.fsync(file.fileno())


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _compress(content: Iterator[bytes], file: Any) -> None:
    import zstandard

    with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
        for block in content:
            packed.write(block)


def _add(path: Path, data: bytes) -> None:
    """Append to a file, unless an earlier repair that was interrupted did so."""
    if path.exists() and path.read_bytes().endswith(data):
        return
    with open(path, "ab", opener=_privately) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _keep_backup(session: Session, now: datetime) -> Path:
    """Give the file as it is a second name; where links are not possible, copy it."""
    stem = f"{session.real.name}.{now:%Y%m%dT%H%M%SZ}.bak"
    for number in range(1000):
        backup = session.real.with_name(stem if not number else f"{stem}{number}")
        try:
            os.link(session.real, backup)
        except FileExistsError:
            continue
        except OSError:
            if backup.exists():
                continue
            _copy(session.real, backup)
        _sync_folder(backup.parent)
        return backup
    raise RefusedError(f"{session.real.parent} has too many backups of this session; remove some")


def _copy(source: Path, target: Path) -> None:
    was = source.stat()
    with source.open("rb") as old, open(target, "xb", opener=_privately) as new:
        while block := old.read(_BLOCK_BYTES):
            new.write(block)
        new.flush()
        os.fchmod(new.fileno(), stat.S_IMODE(was.st_mode))
        os.fsync(new.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
