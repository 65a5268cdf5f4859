"""Diffs: what changes between two texts of one file, for a person. Pure."""

from difflib import unified_diff
from typing import Final

MOST_COMPARED_CHARACTERS: Final = 65_536
"""Of both texts together. Longer ones may take minutes to compare line by line."""


def diff_of(path: str, old: str, new: str) -> str:
    """Return the change of a file as a unified diff. In long texts, all between their equal ends is one change."""
    before, after = old.split("\n"), new.split("\n")
    if len(old) + len(new) <= MOST_COMPARED_CHARACTERS:
        return "\n".join(unified_diff(before, after, path, path, lineterm=""))
    most = min(len(before), len(after))
    start = next((place for place in range(most) if before[place] != after[place]), most)
    end = next((place for place in range(most - start) if before[-1 - place] != after[-1 - place]), most - start)
    less, more = before[start : len(before) - end], after[start : len(after) - end]
    counts = f"@@ -{start + 1},{len(less)} +{start + 1},{len(more)} @@"
    return "\n".join(
        [f"--- {path}", f"+++ {path}", counts, *(f"-{line}" for line in less), *(f"+{line}" for line in more)]
    )
