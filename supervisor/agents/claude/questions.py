"""`AskUserQuestion` of Claude Code: it asks for a permission, and reads the answers from the arguments that it gets.

    {"questions": [{"question": "Which store?", "multiSelect": false, "options": [{"label": "SQLite"}, ...]}]}
        -> updatedInput: {"questions": [...], "answers": {"Which store?": "SQLite"}}

One question of which one option is the answer has these as its choices. All others are one form. Several options of one
question are one text, with commas, as Claude Code writes it itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from supervisor.agents.question_forms import Wanted, content_of, form_of, one_of
from supervisor.core.errors import InvalidInput
from supervisor.seam.context import Context

TOOL: Final = "AskUserQuestion"


async def ask(ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a person, and return the arguments with the answers. Raises InvalidInput for a request that cannot be asked,
    and QuestionUnanswered."""
    questions = _questions(given)
    text = "\n\n".join(map(_text, questions))
    if len(questions) == 1 and not _is_several(questions[0]) and (labels := _labels(questions[0])):
        answers = {str(questions[0]["question"]): await ctx.ask(text, choices=labels)}
    else:
        parts = [Wanted(str(each["question"]), _type(each)) for each in questions]
        found = content_of(await ctx.ask(text, schema=form_of(parts)), parts)
        answers = {name: value if isinstance(value, str) else ", ".join(value) for name, value in found.items()}
    return {**given, "answers": answers}


def _questions(given: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = given.get("questions")
    if not isinstance(found, list) or not found:
        raise InvalidInput(f"{TOOL} asks no question: give a list of questions")
    for each in found:
        if not isinstance(each, Mapping) or not isinstance(each.get("question"), str):
            raise InvalidInput(f"{TOOL}: a question is an object with a text `question`, not {each!r}")
        if not all(isinstance(option, Mapping) and isinstance(option.get("label"), str) for option in _options(each)):
            raise InvalidInput(f"{TOOL}: an option is an object with a text `label`, not one of {each['options']!r}")
    return found


def _options(question: Mapping[str, Any]) -> Sequence[Any]:
    options = question.get("options")
    return options if isinstance(options, list) else ()


def _labels(question: Mapping[str, Any]) -> list[str]:
    return [option["label"] for option in _options(question)]


def _is_several(question: Mapping[str, Any]) -> bool:
    return question.get("multiSelect") is True


def _type(question: Mapping[str, Any]) -> Any:
    """Return the type of the answer to one question; without options, it is any text."""
    labels = _labels(question)
    if not labels:
        return str
    return list[one_of(labels)] if _is_several(question) else one_of(labels)  # type: ignore[misc] # made here


def _text(question: Mapping[str, Any]) -> str:
    """Return a question with what the agent says of its options."""
    header = question.get("header")
    lines = [f"{header}: {question['question']}" if isinstance(header, str) and header else question["question"]]
    for option in _options(question):
        said = [option.get(name) for name in ("description", "preview")]
        lines.append(": ".join([f"- {option['label']}", *(each for each in said if isinstance(each, str) and each)]))
    return "\n".join(lines)
