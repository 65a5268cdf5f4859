"""The folder in which a call runs: the session's recorded folder, joined with the folder that the call names (A9).

The card, the rules and the tool all use this module, so that they mean the same folder in each process.

Rules
- An argument named `cwd` is a folder, in every tool. A relative one is relative to the session's folder.
- Folders are compared as text: this module does not look at the disk, follow a link or resolve `..`.
"""

import posixpath
from collections.abc import Mapping
from typing import Any


def folder_of_call(session_folder: str, own: str | None) -> str:
    """Return the folder in which a call runs; `own` is the folder that the call names, if it names one."""
    return session_folder if own is None else posixpath.join(session_folder, own)


def known_folder(session_folder: str | None) -> str | None:
    """Return the session's folder if it is known: an imported session may not say where it worked."""
    return session_folder if session_folder is not None and session_folder.startswith("/") else None


def with_folder(arguments: Mapping[str, Any], session_folder: str | None) -> dict[str, Any]:
    """Return the arguments with the folder of the call as their `cwd`, so that they mean the same folder in every
    session. Arguments without a `cwd`, or with one that is not a folder, are returned unchanged."""
    base, own = known_folder(session_folder), arguments.get("cwd")
    if "cwd" not in arguments or base is None or not (own is None or isinstance(own, str)):
        return dict(arguments)
    return {**arguments, "cwd": folder_of_call(base, own)}
