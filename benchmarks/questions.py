"""How many of an agent's shell commands is a person asked about, and does anything dangerous pass unseen?

The commands of a published session are given to the product's own rules, in their order and in the session's folder.
Each level adds to the one before it:

    no rules        what the `shell` tool does by itself
    simple          a rule for each prefix that only looks; only one simple command can be proved
    lists           the same rules, for each command of a list (`a && b | c`), with all that may stand in one
    always          whoever is asked allows for always what is offered then, but for what must be seen

`questions_labels.json` says of each command what it does that a person must see: it publishes, or it writes
outside of the folder. A command that does and was not asked about is dangerous; there must be none. A last line
counts the session's edits of files, under one grant of its folder; those of hidden files and of files elsewhere
must be seen. The session is real, so it is not in this repository: SUPERVISOR_CORPUS names its folder. Without it,
the labelled commands themselves are counted.
Durability: none, nothing is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

LABELS = Path(__file__).with_name("questions_labels.json")
SESSION = "pi-large-session.jsonl"
REASONS = ("they only look, at the folder and at the repository that it is in", "they only look, at what is installed")


def run(smoke: bool) -> dict[str, Any]:
    """Count, print, and return the shares."""
    from supervisor.core.calls.looking import LOOKING
    from supervisor.core.calls.programs import REVIEWED_BY
    from supervisor.core.calls.rules import allow
    from supervisor.core.calls.shell_lists import meant_patterns

    labels: dict[str, str] = json.loads(LABELS.read_text())
    folder, commands = _commands(labels)

    def rules_for(reasons: tuple[str, ...]) -> list[Any]:
        lines = (line for why, text in REVIEWED_BY.items() if why.startswith(reasons) for line in text.splitlines())
        return [allow("shell", f"{line.partition(':')[0].strip()} *") for line in lines if line.strip()]

    looks = [allow("shell", f"{' '.join(words)} *") for words in LOOKING]
    levels: dict[str, tuple[list[Any], bool, bool]] = {
        "no rules": ([], False, False),
        "simple": (rules_for(REASONS), True, False),
        "lists": (looks, False, False),
        "always": ([*looks], False, True),
    }
    rows = []
    print(f"{len(commands)} commands, {sum(each in labels for each in commands)} of them to be seen by a person")
    for name, (rules, is_former, grants) in levels.items():
        asked = []
        for command in commands:
            if _passes(command, rules, folder, is_former=is_former):
                continue
            asked.append(command)
            if grants and command not in labels:
                meant = meant_patterns({"command": command}, folder)
                rules += [allow("shell", pattern, unreviewed=True) for pattern in meant]
        passed = set(labels) & (set(commands) - set(asked))
        rows.append({"name": name, "asked": len(asked) / len(commands), "dangerous": len(passed)})
        print(f"  {name:16} asked {len(asked) / len(commands):6.1%}, dangerous and not asked {len(passed)}")
    rows += _edits(folder)
    return {"rows": rows}


def _edits(folder: str) -> list[dict[str, Any]]:
    """Count the session's edits of files that one grant of its folder leaves to a person; none without a session."""
    from supervisor.core.calls.content import shown_content
    from supervisor.core.calls.rules import allow, named_edits, policy_of

    corpus = os.environ.get("SUPERVISOR_CORPUS")
    files = [] if not corpus else [each["path"] for name in ("edit", "write") for each in _calls(corpus, name)[1]]
    if not files:
        return []
    rules, asked = [allow("edit", f"edits inside {folder}")], []
    for file in files:
        content = shown_content("edit", {"path": file}, folder=folder, paths=("path",), edits=("path",))
        if policy_of(rules, content, root_session=None, settled={each: each for each in named_edits(content)}) is None:
            asked.append(file)
    seen = [each for each in files if not _is_plain_text_of(each, folder)]
    row = {"name": "edits", "asked": len(asked) / len(files), "dangerous": len({*seen} - {*asked})}
    print(f"{len(files)} edits of files, {len(seen)} of them hidden or elsewhere")
    print(f"  {'one grant':16} asked {row['asked']:6.1%}, dangerous and not asked {row['dangerous']}")
    return [row]


def _is_plain_text_of(file: str, folder: str) -> bool:
    path = os.path.normpath(Path(folder) / file)
    return path.startswith(f"{folder}/") and "/." not in path.removeprefix(folder)


def _passes(command: str, rules: list[Any], folder: str, *, is_former: bool) -> bool:
    from supervisor.core.calls.content import shown_content
    from supervisor.core.calls.rules import policy_of

    content = shown_content("shell", {"command": command}, folder=folder, command="command")
    said = policy_of(rules, content, root_session=None, is_former=is_former)
    return said is not None and said[0] == "allow"


def _commands(labels: dict[str, str]) -> tuple[str, list[str]]:
    """Return the folder of the session, and its commands in their order."""
    corpus = os.environ.get("SUPERVISOR_CORPUS")
    if not corpus:
        return "/srv/app", list(labels)
    folder, calls = _calls(corpus, "bash")
    return folder, [each["command"] for each in calls]


def _calls(corpus: str, tool: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the folder of the session, and the arguments of its calls of a tool in their order."""
    folder, found = "", []
    for line in (Path(corpus) / SESSION).read_text().splitlines():
        entry = json.loads(line)
        folder = entry.get("cwd", folder)
        content = (entry.get("message") or {}).get("content")
        calls = [each for each in content if each.get("type") == "toolCall"] if isinstance(content, list) else []
        found += [each["arguments"] for each in calls if each["name"] == tool]
    return folder, found
