"""Which process runs a tree: a row per process, a lease by the server's clock, and a fence in each commit.

Theory: an owner says every BEAT seconds, from a thread and over a connection of its own, that it lives. A process that
wants a tree declares a silent owner dead (the view `living` says when), in the transaction that takes the tree. No
beat brings a dead owner back. Each transaction of an owner asks, under the lock of the writers, whether it was declared
dead.
So a process that was stopped for longer than its lease, or cut off, never writes again, whatever its clock says.

Rules
- The lease is only about when a tree may be taken; that no two write, the fence alone ensures.
- A beat needs no sync: after a crash of the server the lease begins again.
- A process of this machine that has ended is dead at once, whatever its lease says.
- The beat's connection holds an advisory lock. It is free as soon as the server knows that the process has ended, so
  the trees of a killed process are taken after 3 s, and those of a stopped or unreachable one after 10 s.
"""

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import psycopg

from supervisor.core.errors import StoreDied
from supervisor.core.rows import Owner, Process
from supervisor.store.index import columns
from supervisor.store.postgres.server import Address, Connection, Line
from supervisor.system.inside import OURS, STARTED_BY, itself
from supervisor.system.machine import MACHINE, NAMESPACE, has_ended

BEAT: Final = 1.0
_decode_processes: Final = msgspec.json.Decoder(tuple[Process, ...]).decode


class Heart:
    """The thread that says that this process lives."""

    def __init__(self, address: Address, owner: str, presence: int, beat: str) -> None:
        self._owner, self._beat, self._presence = owner, beat, presence
        self._stop, self.begin = threading.Event(), threading.Event()
        self._line = Line(address, "heart", self._prepare, give_up=lambda _: self._stop.is_set())
        self.is_lost = False
        self._thread = threading.Thread(target=self._run, name="supervisor heart", daemon=True)
        self._thread.start()

    def _prepare(self, connection: Connection) -> None:
        connection.execute("SET synchronous_commit = off")
        connection.execute("SELECT pg_advisory_lock_shared($1)", [self._presence])

    def _run(self) -> None:
        self.begin.wait()  # for the commit of the first claim
        while not self._stop.is_set():
            connection = self._line.get(wait=BEAT)
            if connection is not None:
                try:
                    if connection.execute(self._beat, [self._owner]).fetchone() is None:
                        self.is_lost = True
                        return
                except psycopg.Error:
                    self._line.drop()
                    continue
            self._stop.wait(BEAT)

    def stop(self) -> None:
        self._stop.set()
        self.begin.set()
        self._thread.join(timeout=5.0)
        self._line.close()


class OwnedTrees:
    """The trees of one store; `read` and `change` run its queries."""

    def __init__(
        self,
        name: str,
        read: Callable[..., list[Any]],
        change: Callable[[str, Sequence[Any]], None],
        make_heart: Callable[[str, int], Heart],
    ) -> None:
        self._name = name
        self._read = read
        self._change = change
        self._make_heart = make_heart
        self._heart: Heart | None = None
        self._unborn: Heart | None = None
        self.mine: Owner | None = None
        self._presence = 0
        self._owned: set[str] = set()
        self._claimed: set[str] = set()
        self._removed: set[str] = set()
        self._buried: set[str] = set()

    @property
    def fenced(self) -> str | None:
        """The id under which this process may be declared dead; None as long as it has owned nothing."""
        return self.mine.id if self.mine is not None and self._heart is not None else None

    def claim(self, roots: Sequence[str]) -> dict[str, Owner]:
        """Take those of these trees that no other living process has, and return the owners of the others."""
        found = self._read("former_owners", msgspec.json.encode(list(roots)).decode(), writing=True)
        former = {root: (_owner(tuple(row)), row[6] and not _is_known_dead(tuple(row))) for root, *row in found}
        mine = None if self.mine is None else self.mine.id
        others = {
            root: owner
            for root, (owner, lives) in former.items()
            if owner.id != mine and lives and owner.id not in self._buried
        }
        kept = [root for root, (owner, _) in former.items() if owner.id == mine]
        free = [root for root in roots if root not in others and root not in kept]
        if free:
            self._take(free, {former[root][0].id for root in free if root in former})
        self._claimed.update(kept)
        return others

    def _take(self, roots: Sequence[str], former: set[str]) -> None:
        is_first = self._heart is None and not self._claimed
        if self.mine is None:
            me = itself()
            below = (*STARTED_BY, *(() if me is None else (me,)))
            self.mine = Owner(secrets.token_hex(16), os.uname().nodename, os.getpid(), _now(), below, MACHINE)
            self._presence = int.from_bytes(secrets.token_bytes(7), "big")
            self._unborn = self._make_heart(self.mine.id, self._presence)  # may fail, and nothing is claimed yet
        mine = self.mine
        if is_first:
            started_by = msgspec.json.encode(mine.started_by).decode()
            where = f"{mine.machine} {NAMESPACE}"
            self._change("add_owner", [(*columns.owner_columns(mine), started_by, where, self._presence)])
        if dead := sorted(former - self._buried):
            self._change("bury", [(owner,) for owner in dead])
            self._buried.update(dead)
        self._change("own", [(msgspec.json.encode(list(roots)).decode(), mine.id)])
        if former or is_first:
            self._change("clear_owners", [(mine.id,)])
        self._claimed.update(roots)

    def remove(self, root: str) -> None:
        self._claimed.discard(root)
        self._removed.add(root)

    def commit(self) -> None:
        if self._claimed and self._heart is None:
            self._heart, self._unborn = self._unborn, None
            assert self._heart is not None and self.mine is not None  # noqa: PT018 # one fact: the claim made both
            OURS.add(self.mine.id)
            self._heart.begin.set()
        self._owned -= self._removed
        self._owned |= self._claimed
        self._claimed, self._removed = set(), set()
        self._buried = set()

    def rollback(self) -> None:
        self._claimed, self._removed, self._buried = set(), set(), set()

    def what_happened(self) -> StoreDied | None:
        """Return the error if this process was declared dead; None if all is well."""
        return self.declared_dead() if self._heart is not None and self._heart.is_lost else None

    def declared_dead(self) -> StoreDied:
        return StoreDied(
            f"{self._name}: this process was silent for too long, and another one has taken its sessions. Nothing that "
            "it wrote is lost. Start the program again: it goes on with the sessions that no process runs"
        )

    def release(self) -> str | None:
        """Stop being an owner; return the id under which this process owned trees."""
        former = self.fenced
        if former is not None:
            OURS.discard(former)
        if self._heart is not None:
            self._heart.stop()
        if self._unborn is not None:
            self._unborn.stop()
        self._heart = self._unborn = self.mine = None
        self._owned.clear()
        self.rollback()
        return former

    def owns(self, root: str) -> bool:
        return root in self._owned

    def owner_of(self, root: str) -> Owner | None:
        found = self._read("owner_of_tree", root)
        return _owner(found[0]) if found and found[0][6] and not _is_known_dead(found[0]) else None

    def owners_of(self, roots: Sequence[str]) -> dict[str, Owner]:
        found = self._read("owners_of_trees", msgspec.json.encode(list(roots)).decode())
        return {root: _owner(row) for root, *row in found if not _is_known_dead(row)}

    def owners(self) -> list[Owner]:
        return [_owner(row) for row in self._read("owners") if not _is_known_dead(row)]


def _owner(row: Sequence[Any]) -> Owner:
    owner = columns.owner(tuple(row[:4]))
    return msgspec.structs.replace(owner, started_by=_decode_processes(row[4]), machine=row[5].partition(" ")[0])


def _is_known_dead(row: Sequence[Any]) -> bool:
    """Whether an owner was a process of this machine that has ended, although its lease goes on for some seconds."""
    machine, _, namespace = row[5].partition(" ")
    return machine == MACHINE and has_ended(row[2], namespace)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
