"""Patterns of a tool's arguments: a JSON object, of all arguments for allow, of some for deny and ask.

Rules
- An allow pattern is the canonical JSON of all arguments, defaults filled in: with another argument it is another call.
- A deny or ask pattern names some arguments, also nested ones: it matches whatever the other arguments are. In it equal
  numbers are the same (1, 1.0, true); in an allow they are not.
- An argument named `cwd` is compared as the folder in which the call runs (core/calls/folders.py), in every tool.
- An absolute path in a deny or ask pattern matches each spelling of it, and for an argument that a tool declares as a
  path also what leads there (core/calls/paths.py). There, and in no allow, `/srv/app/**` is all that is below the
  folder.
- A pattern never allows a value that JSON cannot express exactly (a NaN, keys that are not text).
- `covers` returns yes only if it is proved. `meets` returns no only if it is proved, and None in doubt.
"""

import posixpath
from collections.abc import Collection, Mapping
from functools import lru_cache
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

import msgspec

from supervisor.core.calls import paths
from supervisor.core.calls.folders import with_folder
from supervisor.core.encoding import read_exact
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import canonical_json

_NOWHERE: Final[paths.Settled] = MappingProxyType({})


def covers(pattern: str, arguments: Mapping[str, Any], cwd: str | None) -> bool:
    """Return whether an allow pattern covers exactly these arguments of a call of a session in the folder `cwd`."""
    fields = fields_of(pattern)
    return fields is not None and is_same(with_folder(fields, cwd), with_folder(arguments, cwd))


def meets(
    pattern: str,
    arguments: Mapping[str, Any],
    cwd: str | None,
    names: Collection[str] = (),
    settled: paths.Settled = _NOWHERE,
    *,
    is_search: bool = False,
) -> bool | None:
    """Return whether a deny or ask pattern matches; None in doubt, and if the pattern cannot be understood. `names`:
    of the arguments that are paths; `settled`: where paths lead; `is_search`: whether the tool may read what is below
    its paths."""
    fields = fields_of(pattern)
    if fields is None:
        return None
    if _is_part(fields, arguments):
        return True
    if "cwd" in fields and _is_part(_settled(fields, cwd), _settled(arguments, cwd)):
        return True
    if not any(isinstance(wanted, str) and (name in names or wanted[:1] == "/") for name, wanted in fields.items()):
        return False
    folder = _settled(arguments, cwd).get("cwd", cwd) if isinstance(arguments.get("cwd"), str) else cwd
    answers = [
        _meets_path(name, wanted, arguments, folder, names, settled, is_search=is_search)
        for name, wanted in fields.items()
    ]
    return False if False in answers else None if None in answers else bool(answers)


def _meets_path(
    name: str,
    wanted: Any,
    arguments: Mapping[str, Any],
    folder: str | None,
    names: Collection[str],
    settled: paths.Settled,
    *,
    is_search: bool,
) -> bool | None:
    """Return whether an argument is what a pattern wants of it, or a path that leads there; None in doubt."""
    if name not in arguments:
        return False
    found = arguments[name]
    if _is_part(wanted, found):
        return True
    is_declared = name in names
    is_path = isinstance(wanted, str) and (is_declared or wanted.startswith("/"))
    if not is_path or not isinstance(found, str | list | tuple):
        return False
    if not is_declared:
        wanted = wanted if wanted.endswith(paths.BELOW) else wanted.rstrip("/")
    pattern = wanted if wanted.startswith("/") else paths.spelled(wanted, folder)
    if not pattern:
        return None
    is_search = is_search and is_declared
    if isinstance(found, str):
        return paths.matches(pattern, found, folder, settled, is_search=is_search)
    given = [each for each in found if isinstance(each, str)]
    answers = [paths.matches(pattern, each, folder, settled, is_search=is_search) for each in given]
    return True if True in answers else None if None in answers else False


def exact_pattern(arguments: Mapping[str, Any]) -> str | None:
    """Return the pattern that covers exactly these arguments, or None if there is none."""
    pattern = to_json(arguments)
    if pattern is None or (fields := read_object(pattern)) is None:
        return None
    return pattern if to_json(fields) == pattern else None


def normalise(pattern: str) -> str:
    """Return the pattern in the form in which it is listed and compared; raises InvalidInput for one that is not a
    JSON object."""
    fields = read_object(pattern)
    if fields is not None:
        read_exact(pattern, f"the pattern {pattern!r}")
    text = None if fields is None else to_json(fields)
    if text is None:
        raise InvalidInput(
            f'the pattern {pattern!r} is not a JSON object of arguments, such as {{"environment": "staging"}}'
        )
    return text


@lru_cache(maxsize=1000)
def fields_of(pattern: str) -> dict[str, Any] | None:
    """Return the object that a rule's pattern is, or None; no caller changes it. A pattern is no longer than a person
    can read, so many are remembered."""
    return read_object(pattern)


def read_object(pattern: str) -> dict[str, Any] | None:
    """Return the value of a JSON object, or None if the text is not one."""
    try:
        fields = msgspec.json.decode(pattern)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def to_json(value: Any) -> str | None:
    """Return the canonical JSON of a value, or None if JSON cannot express it exactly."""
    try:
        return canonical_json(value).decode() if _is_exact(value) else None
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def is_same(fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether both are the same JSON, and JSON can express them."""
    ours = to_json(fields)
    return ours is not None and ours == to_json(arguments)


def _settled(arguments: Mapping[str, Any], cwd: str | None) -> dict[str, Any]:
    """Return the arguments with their folder in its shortest spelling: a deny matches every spelling of a folder."""
    placed = with_folder(arguments, cwd)
    folder = placed.get("cwd")
    return {**placed, "cwd": posixpath.normpath(folder)} if isinstance(folder, str) else placed


def _is_exact(value: Any) -> bool:
    """Return whether JSON expresses the value exactly; msgspec writes a NaN as null."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_exact(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_exact, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, str | int)


def _is_part(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(found, Mapping):
        return all(key in found and _is_part(each, found[key]) for key, each in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list | tuple):
        return len(wanted) == len(found) and all(map(_is_part, wanted, found))
    return bool(wanted == found)
