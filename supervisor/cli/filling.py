"""Asks the person at this terminal for the fields of a form, one after the other.

The prompts go to stderr, since stdout carries the answer of the command. An empty line keeps the text that is shown in
brackets; two quotation marks stand for none.
"""

import sys
from typing import Any

from msgspec import UNSET

from supervisor.channels.chat.interview import NOTHING, Interview, Prompt
from supervisor.channels.wording.form_words import fields_of
from supervisor.cli.answers import say_on_stderr
from supervisor.core.approvals.fields import Field
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval


async def fill_in(field: Field | None, value: Any = UNSET, *, instead: str) -> Any:
    """Return the value that the person gives. `value`: what the fields have at first; `instead`: what to do where no
    person can be asked. Raises InvalidInput without a terminal, or without fields."""
    if field is None or field.kind == "json":
        raise InvalidInput(f"there are no fields to fill in: {instead}")
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInput(f"there is no terminal to ask at: {instead}")
    from anyio import to_thread

    interview = Interview(field, value)
    while True:
        while (prompt := interview.prompt) is not None:
            line = await to_thread.run_sync(_ask, prompt, abandon_on_cancel=True)
            if (problem := interview.take(line)) is not None:
                say_on_stderr(f"  {visible(problem, kind='words')}")
        if not (reading := interview.reading).problems:
            say_on_stderr(json_text(reading.value))
            return reading.value
        say_on_stderr(f"  {visible('; '.join(reading.problems.values()), kind='words')}")
        interview.go_back()


async def fill_in_approval(approval: Approval, *, instead: str) -> Any:
    """Return the answer to a question, or the edited arguments of a call, that the person gives."""
    value = UNSET if approval.kind == "question" else approval.arguments
    return await fill_in(fields_of(approval), value, instead=instead)


def _ask(prompt: Prompt) -> str:
    """Return a line, or the text that the field has for an empty one. Raises InvalidInput at the end of the input."""
    kept = f" [{visible(prompt.text, kind='words')}]" if prompt.text else ""
    sys.stderr.write(f"{prompt.label or 'answer'} ({prompt.about}){kept}: ")
    sys.stderr.flush()
    if not (line := sys.stdin.readline()):
        raise InvalidInput("the input ended before the form did; nothing was decided")
    line = line.removesuffix("\n")
    if line == NOTHING and prompt.text != NOTHING:
        return NOTHING if prompt.takes_empty else ""
    return line or prompt.text
