"""The words of an approval in the index, by which it is found again: those of the call or the question as it was asked.

Rules
- Secrets and credentials are masked first. So the index has none, and a search finds none.
- The first MOST_CHARACTERS count: the tool, the caller's own words, the arguments in their order.
- What cannot be decoded has no words. No append fails for them.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.text.masks import hide, mask_arguments, may_hide
from supervisor.core.text.words import as_line, words_of

MOST_CHARACTERS: Final = 20_000
"""The most characters of an approval that can be searched."""


def words_asked(event: e.AnyEvent) -> str:
    """Return the words of an event that asks a person, in one line; see core/text/words.py."""
    try:
        texts = list(_texts(event))
        text = "\n".join(texts)
        if may_hide(text):  # few have credentials, and one look at all of them is enough
            text = hide("\n".join(hide(texts)))
        return as_line(words_of(text[:MOST_CHARACTERS]))
    except (msgspec.MsgspecError, RecursionError):
        return as_line(())


def _texts(event: e.AnyEvent) -> Iterator[str]:
    match event:
        case e.ToolCallRequested():
            yield event.tool
            yield event.because
            yield from _texts_in(mask_arguments(msgspec.json.decode(event.arguments), event.secret))
        case e.QuestionAsked():
            yield event.question
            yield from event.choices or ()
        case _:
            pass


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the names and the values of a JSON value."""
    match value:
        case bool() | None:
            pass
        case str():
            yield value
        case dict():
            for name, each in value.items():
                yield name
                yield from _texts_in(each)
        case list():
            for each in value:
                yield from _texts_in(each)
        case _:
            yield str(value)
