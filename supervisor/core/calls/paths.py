"""Arguments of calls that are paths: how rules compare them. Pure: the environment settles them (system/settling.py).

    /srv/app/notes.md     this file               /srv/app/**     each file below this folder, and the folder itself

Theory: a path has many spellings: `//`, `/./`, `/x/../`, a relative one, and links. A deny must match each of them, and
an allow must match none that leads elsewhere. So a tool declares which of its arguments are paths. The environment
settles them: absolute, without `..`, with links resolved. It does that just before a call asks, and again just before
its effect.

Rules
- `Settled` maps a path, absolute and spelled in the shortest way, to where it leads. A path that is not in it was not
  settled: it allows nothing, and a deny compares its spelling.
- A deny matches if either the spelling or the settled path does, of the call and of the pattern.
- A path below /proc or /dev can lead anywhere. If it was not settled, it is a doubt.
- A tool that searches reads what is below its path, so a deny of a place below that is a doubt. Without a path it
  searches the folder in which it works.
- An allow of a path covers a call if each path that its tool declares is given, settled, and there. One with `..` is
  not: after a link, `..` leads elsewhere than it reads.
- Files of ours (the store, the configuration, tokens) are covered by no rule with a pattern.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from supervisor.core.calls.folders import known_folder

Settled: TypeAlias = Mapping[str, str]
BELOW: Final = "/**"
LONG_CHARACTERS: Final = 1000  # characters of a path from which on its spelling is not remembered
_WORDS: Final = re.compile(r"[^\s'\"=;|&<>()`]+")
_ANYWHERE: Final = ("/proc/", "/dev/")
OF_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Edit", "MultiEdit", "Read", "Write"), ("file_path",)),
    "NotebookEdit": ("notebook_path",),
    "NotebookRead": ("notebook_path",),
    **dict.fromkeys(("Glob", "Grep", "LS"), ("path",)),
}
"""The tools of Claude Code whose arguments are paths, with their names."""
SEARCHING: Final = ("Glob", "Grep", "LS")
"""Those of them that search below their path, and in the folder in which they work if none is given."""
OF_AGENTS: Final = ("abs_path", "absolute_path", "file", "filePath", "file_path", "filepath", "notebook_path", "path")
"""Fields of the raw input of other coding agents that are paths, by their names."""

CHANGES: Final = "changes"
"""The field of Codex's raw input whose names are the paths of the files that it changes."""
MOVED: Final = "move_path"
"""The field of such a change that says where the file goes."""


def spelled(path: str, folder: str | None) -> str | None:
    """Return the absolute path in its shortest spelling; None if it is relative to a folder that is not known."""
    return (_spelled_again if len(path) < LONG_CHARACTERS else _spelled)(path, folder)


def _spelled(path: str, folder: str | None) -> str | None:
    base = known_folder(folder)
    if not path.startswith("/"):
        if base is None or path.startswith("~"):
            return None
        path = posixpath.join(base, path)
    return "/" + posixpath.normpath(path).lstrip("/")


_spelled_again: Final = lru_cache(maxsize=1000)(_spelled)
"""Rules and calls name the same paths again and again."""


def climbs(path: str, folder: str | None) -> bool:
    """Return whether a path, or the folder from which it counts, has a part that is `..`."""
    return ".." in path.split("/") or ".." in (folder or "").split("/")


def paths_of(arguments: Mapping[str, Any], names: Collection[str]) -> Iterator[str | None]:
    """Yield the paths of a call as they are given, of a list each; None for an argument that is no path or is not
    given. An object is one of changes, each by the path of its file."""
    for name in names:
        value = arguments.get(name)
        several = [*value, *_moved(value)] if isinstance(value, Mapping) else value
        for each in several if isinstance(several, list | tuple) and several else (value,):
            yield each if isinstance(each, str) and each else None


def _moved(changes: Mapping[str, Any], depth: int = 2) -> Iterator[Any]:
    """Yield where files go that changes move: Codex says it in a change, or in the object of its kind in there."""
    for change in changes.values():
        if isinstance(change, Mapping):
            if change.get(MOVED) is not None:
                yield change[MOVED]
            if depth > 1:
                yield from _moved(change, depth - 1)


def searched(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the arguments of a tool that searches, with the folder in which it works in place of each path that is not
    given."""
    return {**arguments, **{name: [each or "." for each in paths_of(arguments, (name,))] for name in names}}


@lru_cache(maxsize=1000)
def read(pattern: str) -> tuple[str, bool]:
    """Return the path of a pattern, and whether it means all that is below."""
    is_folder = pattern.endswith((BELOW, "/"))
    return spelled(pattern.removesuffix(BELOW), None) or "/", is_folder


def normalise(pattern: str) -> str:
    """Return a pattern of a path as it is kept."""
    path, is_folder = read(pattern)
    return f"{path.rstrip('/')}{BELOW}" if is_folder else path


def is_there(path: str, pattern: str, settled: Settled) -> bool:
    """Return whether a path, spelled or settled, is what a pattern means."""
    wanted, is_folder = read(pattern)
    for place in {wanted, settled.get(wanted, wanted)}:
        if path == place or (is_folder and path.startswith(f"{place.rstrip('/')}/")):
            return True
    return False


def is_above(path: str, pattern: str, settled: Settled) -> bool:
    """Return whether what a pattern means is below a path, spelled or settled."""
    wanted, _ = read(pattern)
    above = tuple(f"{each.rstrip('/')}/" for each in (path, settled.get(path, path)))
    return wanted.startswith(above) or settled.get(wanted, wanted).startswith(above)


def covers(
    pattern: str, arguments: Mapping[str, Any], names: Collection[str], folder: str | None, settled: Settled
) -> bool:
    """Return whether a rule that allows covers a call: each of its paths leads there."""
    given = list(paths_of(arguments, names))
    places = [
        settled.get(spelled(each, folder) or "") if each is not None and not climbs(each, folder) else None
        for each in given
    ]
    wanted, is_folder = read(pattern)
    place = settled.get(wanted, wanted)
    return bool(places) and all(
        each is not None and (each == place or (is_folder and each.startswith(f"{place.rstrip('/')}/")))
        for each in places
    )


def meets(
    pattern: str,
    arguments: Mapping[str, Any],
    names: Collection[str],
    folder: str | None,
    settled: Settled,
    *,
    is_search: bool = False,
) -> bool | None:
    """Return whether a rule that denies or asks matches a call: one of its paths is there. None in doubt. `is_search`:
    whether the tool may read what is below its paths."""
    given = [each for each in paths_of(arguments, names) if each is not None]
    answers = [matches(pattern, each, folder, settled, is_search=is_search) for each in given]
    return True if True in answers else None if None in answers or not names else False


def names_any(files: Collection[str], value: Any, folder: str | None, settled: Settled) -> bool:
    """Return whether a value names one of these files, or what is in one, anywhere in its texts."""
    if isinstance(value, Mapping):
        return any(names_any(files, each, folder, settled) for each in (*value, *value.values()))
    if isinstance(value, list | tuple):
        return any(names_any(files, each, folder, settled) for each in value)
    if not isinstance(value, str):
        return False
    named = [spelled(each, folder) for each in dict.fromkeys([value, *_WORDS.findall(value)])]
    places = {place for each in named if each is not None for place in (each, settled.get(each, each))}
    return any(place == file or place.startswith(f"{file}/") for place in places for file in files)


def matches(pattern: str, given: str, folder: str | None, settled: Settled, *, is_search: bool = False) -> bool | None:
    """Return whether a path is what a pattern means; None in doubt. `is_search`: as in `meets`."""
    path = spelled(given, folder)
    if path is None:
        return None
    if is_there(path, pattern, settled) or (path in settled and is_there(settled[path], pattern, settled)):
        return True
    if is_search and is_above(path, pattern, settled):
        return None
    return None if path not in settled and f"{path}/".startswith(_ANYWHERE) else False
