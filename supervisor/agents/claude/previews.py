"""The preview of Claude Code's tools that edit a file: a diff of the file as it is now (A18).

Rules
- The preview says what Claude Code would refuse, such as a text that is not in the file. That is no failure.
- The state is that of the file: who has changed it meanwhile has changed what was approved.
- Only a file is read, and no more of it than MOST_BYTES.
"""

import stat
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from supervisor.core.calls.edits import EDITORS
from supervisor.core.declarations.previews import Preview, PreviewContext
from supervisor.core.text.diffs import diff_of

MOST_BYTES: Final = 1_000_000
PREVIEWED: Final = frozenset(EDITORS) - {"NotebookEdit"}
"""The tools with this preview."""


def change_of(ctx: PreviewContext, arguments: Mapping[str, Any]) -> Preview:
    """Return what a call of Edit, MultiEdit or Write changes in its file."""
    named = arguments["file_path"]
    path = Path(ctx.cwd) / named
    try:
        found = path.stat()
    except FileNotFoundError:
        raw = None
    else:
        if not stat.S_ISREG(found.st_mode):
            return Preview(text=f"{named} is no file", state="no file")
        if found.st_size > MOST_BYTES:
            return Preview(text=f"{named} has {found.st_size} bytes, too many to show", state=str(found.st_mtime_ns))
        raw = path.read_bytes()
    state = "" if raw is None else sha256(raw).hexdigest()
    try:
        old = "" if raw is None else raw.decode()
    except UnicodeDecodeError:
        return Preview(text=f"{named} is no text", state=state)
    if "content" in arguments:
        new = arguments["content"]
    else:
        changes = arguments.get("edits", [arguments])
        new, misfit = _changed(old, changes if isinstance(changes, Sequence) else [])
        if misfit:
            return Preview(text=f"{misfit} {named}", state=state)
    diff = diff_of(str(named), old, new)
    whole = diff if raw is not None else f"a new file\n{diff}"
    return Preview(diff=whole, state=state) if diff else Preview(text=f"nothing changes in {named}", state=state)


def _changed(text: str, changes: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return a text after replacements, and what keeps one of them from being made."""
    for each in changes:
        old, new, is_all = each["old_string"], each["new_string"], bool(each.get("replace_all"))
        count = text.count(old) if old else 0
        if not old and not text:  # Claude Code makes a file so
            text = new
        elif count == 0:
            return text, "the text to replace is not in"
        elif count > 1 and not is_all:
            return text, f"the text to replace is {count} times in"
        else:
            text = text.replace(old, new, -1 if is_all else 1)
    return text, ""
