"""What an agent says to people, for chat platforms that render Markdown: in pieces that fit into messages.

Rules
- No text is lost: a long one becomes several messages, cut at blank lines where there are any. A fenced block that is
  cut is closed in one message, and opened again in the next one.
- The text mentions no person, and no link hides its target. An invisible character, the same that chat platforms put
  into joined emoji, breaks up what a platform would take for a mention or for a link with a label. Everything else
  stays as it was written, also in code.
- Pure.
"""

import re
from collections.abc import Iterator
from typing import Final

from supervisor.channels.wording.lengths import beginning_of_text, fit, length

MOST: Final = 20
"""The length of the longest text, in full messages. A remark says how much is missing."""
_JOINER: Final = "\u200d"
_TRAPS: Final = re.compile(
    r"<(?=[@#!])"  # a mention, a channel or a date: <@U012>, <#C012>, <!here>, and Discord's <@123>
    r"|<(?=[^\s<>|]+\|)"  # Slack's own links: <https://example.org|label>
    r"|(?<!\w)@(?=(?:everyone|here|channel)\b)"
    r"|\](?=\(\s*[^)\s]{0,80}[:/.&%<\\])"  # [label](https://example.org) and ![image](https://example.org)
    r"|\](?=:\s*\S{0,80}[:/.&%<\\])"  # [label]: https://example.org, to which [label] and [text][label] would lead
)
_FENCE: Final = re.compile(r" {0,3}(`{3,10}|~{3,10})([^`]*)")
_OPENING_UNITS: Final = 60  # UTF-16 units; a longer line that opens a block is not repeated


def harmless(text: str) -> str:
    """Return Markdown that mentions no person and has no link that hides its target."""
    return _TRAPS.sub(lambda trap: trap[0] + _JOINER, text)


def pieces(text: str, limit: int) -> list[str]:
    """Return a text as messages of at most `limit` UTF-16 units, at least 1000. There is always one, perhaps empty."""
    return list(_pieces(fit(text, MOST * limit), limit)) or [text.strip()]


def message_ending(text: str, limit: int, *, is_cut: bool = False) -> str:
    """Return a text as one message of at most `limit` UTF-16 units, at least 1000: all of it, or its end, after an
    ellipsis. `is_cut`: its beginning is missing already. A fenced block that is open is closed."""
    kept = text
    if is_cut or length(text) > limit - _OPENING_UNITS:
        kept = beginning_of_text(text[::-1], limit - 2 * _OPENING_UNITS)[::-1]
        if 0 <= (line := kept.find("\n")) < len(kept) // 4:
            kept = kept[line + 1 :]
        opening = _open_fence(text[: len(text) - len(kept)])
        again = f"{opening}\n" if opening is not None and len(opening) < _OPENING_UNITS else ""
        kept = f"…\n{again}{kept}"
    if (opening := _open_fence(kept)) is not None and (fence := _FENCE.match(opening)) is not None:
        kept = f"{kept}\n{fence[1]}"
    return kept


def _pieces(rest: str, limit: int) -> Iterator[str]:
    while rest.strip():
        head = beginning_of_text(rest, limit)
        if head == rest:
            yield rest.strip("\n")
            return
        head = beginning_of_text(rest, limit - _OPENING_UNITS)  # room for the end of a fenced block
        cut = _place_to_cut(head)
        piece, rest = head[:cut].strip("\n"), rest[cut:].lstrip("\n")
        if (opening := _open_fence(piece)) is not None:
            fence = _FENCE.match(opening)
            assert fence is not None
            piece = f"{piece}\n{fence[1]}"
            rest = f"{opening if len(opening) < _OPENING_UNITS else fence[1]}\n{rest}"
        if piece.strip():
            yield piece


def _place_to_cut(head: str) -> int:
    """Return where to cut: at the last blank line, outside a fenced block if possible, or else at a line or a word."""
    blank = [found.start() for found in re.finditer(r"\n[ \t]*\n", head) if found.start() >= len(head) // 4]
    for place in reversed(blank):
        if _open_fence(head[:place]) is None:
            return place
    if blank:
        return blank[-1]
    for between in ("\n", " "):
        if (place := head.rfind(between)) >= len(head) // 4:
            return place + 1
    return len(head)


def _open_fence(text: str) -> str | None:
    """Return the line that opens the fenced block in which a text ends; None outside one."""
    opening: str | None = None
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        if opening is None:
            opening, fence = line, found[1]
        elif found[1].startswith(fence) and not found[2].strip():
            opening = None
    return opening
