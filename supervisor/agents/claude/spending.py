"""What Claude Code's requests to its model took: it writes that into the files of its conversation.

    ~/.claude/projects/FOLDER/ID.jsonl            {"type": "assistant", "message": {"id", "model", "usage": {...}}}
    ~/.claude/projects/FOLDER/ID/.../*.jsonl      the same of its sub-agents

Rules
- It names the conversation to the servers that it starts (SESSION). Without that name nothing is known, and nothing is
  counted.
- One reply takes several lines with one id, and counts once: when a line says why it has ended, or another reply
  begins. Its numbers are the largest of its lines.
- A file that is new to the session may begin with replies of an earlier conversation: those from before `since` are not
  counted.
- A number that a line does not have is unknown. What Claude Code has written itself in the model's place is no request.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from supervisor.core.usage import LARGEST, Usage

SESSION: Final = "CLAUDE_CODE_SESSION_ID"
FOLDER: Final = "CLAUDE_CONFIG_DIR"
_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_OWN_WORDS: Final = "<synthetic>"
MOST_IDS: Final = 20
MOST_BYTES: Final = 1024 * 1024  # bytes of one file that one look reads


class _Message(msgspec.Struct):
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None


class _Line(msgspec.Struct):
    message: _Message
    timestamp: str = ""


class _Type(msgspec.Struct):
    type: str = ""


_LINE: Final = msgspec.json.Decoder(_Line)
_TYPE: Final = msgspec.json.Decoder(_Type)


class Read(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a file is counted, and the ids of the last replies that are: their further lines may follow."""

    place: int = 0
    ids: tuple[str, ...] = ()


class Conversation:
    """The files of one conversation. `projects`: the folder that has them."""

    def __init__(self, projects: Path, session: str, since: datetime) -> None:
        self._projects = projects
        self._session = session
        self._since = since

    def read(self, counted: Mapping[str, Read], *, is_over: bool) -> tuple[dict[str, Read], list[Usage]]:
        """Return what was used after what is counted, and what is counted now. `is_over`: no further line is waited
        for."""
        now, used = dict(counted), list[Usage]()
        for path in self._files():
            name = path.relative_to(self._projects).as_posix()
            with suppress(OSError):  # it is read at the next look
                now[name], found = self._read_file(path, counted.get(name), is_over=is_over)
                used += found
        return now, used

    def _files(self) -> list[Path]:
        own = self._projects.glob(f"*/{self._session}.jsonl")
        return sorted([*own, *self._projects.glob(f"*/{self._session}/**/*.jsonl")])

    def _read_file(self, path: Path, before: Read | None, *, is_over: bool) -> tuple[Read, list[Usage]]:
        since = self._since if before is None else None
        place, ids = (0, ()) if before is None else (before.place, before.ids)
        first, end, used, reply = place, place, list[Usage](), list[_Line]()

        def count() -> None:
            nonlocal ids
            if reply:
                used.extend(_used_by(reply, since))
                ids = (*ids, reply[0].message.id)[-MOST_IDS:]
                reply.clear()

        with path.open("rb") as file:
            file.seek(place)
            while end - first < MOST_BYTES and (raw := file.readline()).endswith(b"\n"):
                start, end = end, end + len(raw)
                line = _read_line(raw)
                if line is not None and not (line.message.id and line.message.id in ids):
                    if reply and reply[0].message.id != line.message.id:
                        count()
                    if not reply:
                        place = start
                    reply.append(line)
                    if line.message.stop_reason is not None:
                        count()
        if is_over or end - first >= MOST_BYTES:  # no reply is as long
            count()
        return Read(place if reply else end, ids), used


def find_conversation(environment: Mapping[str, str], since: datetime) -> Conversation | None:
    """Return the conversation of the Claude Code that has started this process; None if it does not name one."""
    session = environment.get(SESSION, "")
    if not _ID.fullmatch(session):
        return None
    folder = Path(environment.get(FOLDER) or Path(environment.get("HOME", ""), ".claude"))
    return Conversation(folder / "projects", session, since)


def _read_line(raw: bytes) -> _Line | None:
    """Return a line that is a part of a reply of the model; None for others."""
    with suppress(msgspec.DecodeError):
        if _TYPE.decode(raw).type == "assistant":
            return _LINE.decode(raw)
    return None


def _used_by(reply: list[_Line], since: datetime | None) -> Iterator[Usage]:
    """Yield what a reply took, unless it is from before `since`."""
    model = reply[0].message.model
    if model == _OWN_WORDS or (since is not None and _is_before(reply[0].timestamp, since)):
        return
    said = [each.message.usage or {} for each in reply]
    given, written, cached, made = (
        _largest(said, name)
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    whole = None if given is None else given + (cached or 0) + (made or 0)
    if whole is not None and whole <= LARGEST:
        yield Usage(model, 1, whole, cached or 0, written)
    else:
        yield Usage(model, 1, None, cached, written)


def _largest(said: list[dict[str, Any]], name: str) -> int | None:
    known = [each[name] for each in said if type(each.get(name)) is int and 0 <= each[name] <= LARGEST]
    return max(known, default=None)


def _is_before(timestamp: str, since: datetime) -> bool:
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return False
    return (at if at.tzinfo else at.replace(tzinfo=UTC)) < since
