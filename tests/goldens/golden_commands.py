"""What each command prints with `--json`: json/COMMAND.txt, on a small store that the commands themselves fill.

The commands run in this process, one after another. Ids are numbers in order (still_world.py); what says when, where
or by which process something was done is replaced by its name.
"""

import io
import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

from still_world import BEGAN, Backend, still, without_folder

from supervisor.cli import main

AGENTS = str(Path(__file__).with_name("commanded_agents.py"))
DANGLING = Path(__file__).parents[1] / "transcripts/corpus/claude_code/dangling-at-the-end.jsonl"
WHOLE = DANGLING.with_name("sidechain-in-the-main-file.jsonl")
TOKENS = f'[server]\nport = 0\n[people.ana-lee]\ntokens = ["sha256:{"0" * 64}"]\n'
BY = ("--by", "ana-lee")
STEPS: tuple[tuple[str, ...], ...] = (
    ("run", f"{AGENTS}:noting", '["bread", "cake", "tea", "rice"]', "--session", "s", "--cwd", "/"),
    ("run", f"{AGENTS}:asking", "--session", "q", "--cwd", "/"),
    ("run", f"{AGENTS}:failing", "--session", "f", "--cwd", "/"),
    ("run", f"{AGENTS}:hearing", "--session", "h", "--cwd", "/"),
    ("sessions",),
    ("top", "--once"),
    ("usage",),
    ("show", "s"),
    ("approvals",),
    ("ack", "{s}", *BY),
    ("snooze", "{s}", "--until", "2027-01-31T07:00+01:00", *BY),
    ("schedules",),
    ("approve", "{s}", "--edit", '{"text": "rolls", "loudly": true}', *BY),
    ("resume", "s"),
    ("deny", "{s}", "--reason", "no cake", *BY),
    ("approve", "{s}", "--scope", "session", *BY),
    ("deny", "{s}", "--reason", "no cake", *BY),
    ("check-replay", AGENTS),
    ("answer", "{q}", "tea", *BY),
    ("resume",),
    ("rules allow", "note", '{"text": "bread"}', *BY),
    ("rules ask", "note", *BY),
    ("rules deny", "shell", *BY),
    ("rules",),
    ("rules revoke", "{rule}", *BY),
    ("send", "h", "hello", *BY),
    ("retry", "f"),
    ("fork", "s", "--before", "4", "--session", "t"),
    ("cancel", "t", "--reason", "enough", *BY),
    ("cancel", "h", *BY),
    ("approvals", "--all"),
    ("audit",),
    ("jobs", "--all"),
    ("token",),
    ("token list", "--config", "supervisor.toml"),
    ("token revoke", f"sha256:{'0' * 64}", "--config", "supervisor.toml"),
    ("import", "whole.jsonl", "--not-running"),
    ("repair", "dangling.jsonl"),
    ("prune", "--older-than", "0s", "--dry-run"),
    ("prune", "--older-than", "0s", "--yes"),
)
"""In this order. "{s}": the oldest approval of the session s that waits; "{rule}": the oldest rule."""
ELSEWHERE = {
    "start": "it needs a server: its document is that of `run` (tests/cli/test_served_commands.py)",
    "rescue": "it needs a tree on Temporal (tests/temporal/test_temporal_moving.py)",
    **dict.fromkeys(
        (f"schedules {word}" for word in ("add", "pause", "resume", "run", "remove")),
        "it needs a daemon with an agent (tests/cli/test_schedule_commands.py)",
    ),
    "demo": "it takes long, and its document is that of `run`",
}
"""Commands with `--json` that have no golden, and why."""
NAMES = {
    "at",
    "host",
    "pid",
    "process",
    "owner",
    "guard",
    "file",
    "store",
    "duration",
    "began_at",
    "bytes",
    "token",
    "traceback",
}
"""Fields that say when, where or by which process, and which lines of code ran."""
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4(?!000)[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")  # but not the corpus'
_AT = re.compile(r"\b(?!2026-01-01)\d{4}-\d\d-\d\dT[\d:.]+Z")


def print_all(backend: Backend) -> dict[str, str]:
    """Return what each command prints, by its file."""
    found: dict[str, list[str]] = {}
    with still(is_virtual=False) as numbers, TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "supervisor.toml").write_text(TOKENS)
        shutil.copy(DANGLING, place / "dangling.jsonl")
        shutil.copy(WHOLE, place / "whole.jsonl")
        for command, *arguments in STEPS:
            given = [_resolved(each, place) for each in arguments]
            numbers.restart(crc32(without_folder(" ".join([command, *arguments])).encode()))
            code, said = _call(*command.split(), *given, "--json", *_store_of(command, place))
            shown = " ".join([*command.split(), *arguments]).replace(AGENTS, "FILE")
            body = json.dumps(_scrubbed(json.loads(said)), indent=1, ensure_ascii=False)
            name = command.replace(" ", "-")
            found.setdefault(name, []).append(f"$ supervisor {shown} --json    (exit code {code})\n{body}\n")
        texts = {name: "\n".join(parts).replace(folder, "FOLDER") for name, parts in found.items()}
    return {f"json/{name}.txt": without_folder(text) for name, text in texts.items()}


def _call(*words: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    assert out.getvalue(), f"{words}: exit code {code}\n{err.getvalue()}"
    return code, out.getvalue()


def _store_of(command: str, place: Path) -> list[str]:
    return [] if command == "repair" else ["--store", str(place / "state.db")]


def _resolved(argument: str, place: Path) -> str:
    """Return an argument as the command gets it."""
    if argument == "{rule}":
        return str(json.loads(_call("rules", "--json", *_store_of("rules", place))[1])[0]["id"])
    if asked := re.fullmatch(r"\{(\w)\}", argument):
        _, said = _call("approvals", "--all", "--json", *_store_of("approvals", place))
        waits = [each["id"] for each in json.loads(said) if each["root_session"] == asked[1]]
        pending = [each["id"] for each in json.loads(said) if each["status"] == "pending" and each["id"] in waits]
        return (pending or waits)[0]
    return str(place / argument) if argument.endswith((".toml", ".jsonl")) else argument


def _scrubbed(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _scrubbed(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_scrubbed(each, key) for each in value]
    if not value or (isinstance(value, str) and value.startswith(BEGAN.isoformat()[:16])):
        return value
    if key in NAMES:
        return f"THE {key.upper()}"
    if not isinstance(value, str):
        return value
    return _AT.sub("AT", _UUID.sub("UUID", value))
