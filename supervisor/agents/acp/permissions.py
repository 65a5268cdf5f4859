"""Permission requests: what an agent asks to be allowed, as a call of ours. Pure.

The agent sends its raw input, a kind, a title, and perhaps diffs. Only the raw input is what the call is about. All the
rest are the agent's own words, so they are claims: a card shows and marks them, and rules do not see them.

Rules
- The call is named AGENT.KIND. Its arguments are the fields of the raw input, followed by the claims. A claim whose
  name the raw input has gets another one, so no field of the raw input replaces a claim or is taken for one.
- The diffs of a call with raw input are evidence of the kind claim, next to the call. They are shown as the agent's
  words, and no card is whole without them.
- Texts of the request are the agent's words to the person who decides: a reason, or a plan. They are no argument.
  Without raw input they are claims, since a person decides about them.
- The kind is a claim, too: a rule that allows needs a pattern, and one that denies by a pattern counts for each kind.
- Fields with which Codex identifies one request are claims: the same call has others when it is asked again. Whether
  an agent is Codex is what it says of itself when the connection begins. In every other agent's raw input a field of
  the same name is an argument.
- A raw input that is empty or missing says nothing to rules. Such a call can be allowed once only. It is the same as
  another one if the kind, the title, and all of the content and the places are. So all of that is a claim, however
  long: what has no words of its own as JSON, and a digest of the whole, so that no two of them have the same card. A
  card that is too small for that has no way to approve it.
- The argument `command` is a shell command if it is a text or a list of texts, whatever the kind. Fields next to it
  that only tell of it are claims, too.
- Our answer is the agent's own option: `allow_once`, never `allow_always`, since standing decisions are our rules;
  `reject_once`, or else `reject_always`. Options do not fit if one of both is missing, or if there are several that
  allow once. Then the agent's names of its options are a question.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from supervisor.core.calls.content import CallContent, names_of_claims, shown_content
from supervisor.core.calls.paths import CHANGES, MOVED, OF_AGENTS
from supervisor.core.encoding import printable_text
from supervisor.core.ids import canonical_json, digest_of_value
from supervisor.core.text.diffs import diff_of

KINDS: Final = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
TITLE: Final = "the agent's title"
DIFF: Final = "the agent's diff"
PLACES: Final = "the agent's places"
WORDS: Final = "the agent's words"
OTHERS: Final = "what else the agent says"
DIGEST: Final = "digest of what the agent says"
CLAIMS: Final = (TITLE, DIFF, PLACES)
WITHOUT_INPUT: Final = (WORDS, OTHERS, DIGEST)
"""Further claims of a call without raw input."""
ABOUT_COMMAND: Final = ("description", "parsed_cmd", "proposed_execpolicy_amendment", "available_decisions")
"""Fields of a raw input with a command that only tell of it: the model's words, and what Codex makes of the command."""
MAX_CLAIM_CHARACTERS: Final = 65_536  # characters of a claim about a raw input
DIGITS: Final = 16  # of a digest that a person sees
OF_EDIT: Final = (
    *(
        "content",
        "diff",
        "edits",
        "new_str",
        "new_string",
        "newString",
        "newText",
        "old_str",
        "old_string",
        "oldString",
    ),
    *("oldText", "reason", "replace_all", "replaceAll"),
)
"""Further fields of a raw input that changes the text of files, and no more."""
DELETES: Final = "+++ /dev/null"
"""A line of a diff that deletes a file."""
CODEX: Final = "codex-acp"
"""The name that Codex gives itself in `agentInfo`."""
OF_ONE_REQUEST: Final = ("call_id", "turn_id", "started_at_ms")
"""Fields with which Codex's raw input identifies a request. They say nothing of the call, and differ each time."""


class Option(msgspec.Struct, frozen=True):
    id: str
    name: str
    kind: str


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A request, read. `given`: the raw input; None if there is none. `arguments`: all that a person is shown, which
    the words of `because` are part of. `call`: the agent's id of its tool call. `program`: what the agent's program
    calls itself."""

    call: str
    tool: str
    given: Any
    arguments: dict[str, Any]
    options: tuple[Option, ...]
    program: str | None = None
    because: str = ""
    """What the agent says to the person who decides: the texts of the request. They are no part of the call."""
    diff: str = ""
    """What the agent says that the call changes, if it has raw input. That is no part of the call either."""
    form: dict[str, Any] | None = None
    """The form of a question; None for a permission."""
    seen: str = ""
    """The digest of what a person sees of a call without raw input; empty if it is nothing."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the fields of the raw input that identify this request only."""
        return ids_in(self.given, self.program)

    @property
    def content(self) -> CallContent:
        return content_of(self.tool, self.given, self.ids)

    @property
    def called_with(self) -> dict[str, Any]:
        """The arguments of the call: its fields and claims without the words."""
        if not self.because or WORDS in _fields(self.given):
            return self.arguments
        return {name: value for name, value in self.arguments.items() if name != WORDS}

    @property
    def is_question(self) -> bool:
        return allowing(self.options) is None or rejecting(self.options) is None


def read(
    agent: str, told: Mapping[str, Any], options: Iterable[Mapping[str, Any]], program: str | None = None
) -> Permission:
    """Return a request as a call. `told`: all that the agent has said of its tool call, in updates and here. `program`:
    what the agent's program calls itself; None: it does not say."""
    kind, given = told.get("kind"), told.get("rawInput")
    given = None if given in (None, {}, [], "") else given
    seen = seen_of(told) if given is None else ""
    because = "" if seen else _texts(told.get("content"))
    diff = None if given is None else _diffs(told.get("content"))
    return Permission(
        call=told["toolCallId"],
        tool=f"{agent}.{kind if kind in KINDS else 'other'}",
        given=given,
        arguments=({WORDS: because} if because else {})
        | arguments_of(given, told)
        | (_all_of(told, seen) if seen else {}),
        because=because,
        diff="" if diff is None else printable_text(cut(diff, MAX_CLAIM_CHARACTERS)),
        program=program,
        seen=seen,
        options=tuple(Option(each["optionId"], each["name"], each["kind"]) for each in options),
    )


def arguments_of(given: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the call. `told`: all that the agent has said of it."""
    fields, named = _fields(given), names_of_claims(_fields(given), CLAIMS)
    diff = _diffs(told.get("content")) if given is None else None
    claims = {TITLE: told.get("title"), DIFF: diff, PLACES: _places(told.get("locations"))}
    said = {named[name]: text for name, text in claims.items() if isinstance(text, str)}
    return {
        **fields,
        **(said if given is None else {name: cut(text, MAX_CLAIM_CHARACTERS) for name, text in said.items()}),
    }


def seen_of(told: Mapping[str, Any]) -> str:
    """Return the digest of all that an agent says of a call without raw input; empty if it says nothing."""
    said = [told.get(name) or None for name in ("title", "content", "locations")]
    return digest_of_value(said) if any(said) else ""


def _all_of(told: Mapping[str, Any], seen: str) -> dict[str, str]:
    """Return what a person must see of a call without raw input, besides its title, its diffs and its places."""
    others = [each for each in told.get("content") or () if not (_is_diff(each) or _text(each))]
    others += [each for each in told.get("locations") or () if not _is_place(each)]
    if not isinstance(told.get("title"), str | None):
        others.append(told["title"])
    said = {WORDS: _texts(told.get("content")), OTHERS: "\n".join(canonical_json(each).decode() for each in others)}
    return {name: text for name, text in said.items() if text} | {DIGEST: seen[:DIGITS]}


def _fields(given: Any) -> Mapping[str, Any]:
    """Return the fields of a raw input."""
    return given if isinstance(given, Mapping) else {} if given is None else {"input": given}


def ids_in(given: Any, program: str | None) -> tuple[str, ...]:
    """Return the names of the fields of a raw input that identify one request, if the agent's program has such ones."""
    if program != CODEX or not isinstance(given, Mapping):
        return ()
    return tuple(name for name in OF_ONE_REQUEST if name in given)


def claims_in(given: Any, ids: Iterable[str] = (), arguments: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of the arguments that are claims. There are always some: the kind in the call's name is one,
    whatever else the agent has said. `ids`: those of the raw input that identify one request. `arguments`: the names of
    all arguments, of which a call without raw input has nothing but claims."""
    about = ABOUT_COMMAND if command_in(given) is not None else ()
    further = [name for name in WITHOUT_INPUT if given is None and name in arguments]
    named = names_of_claims(_fields(given), CLAIMS).values()
    return (*named, *(name for name in about if name in given), *ids, *further)


def title_of(given: Any, arguments: Mapping[str, Any]) -> str | None:
    """Return the title that the agent gave a call; None if it gave none."""
    found = arguments.get(names_of_claims(_fields(given), CLAIMS)[TITLE])
    return found if isinstance(found, str) and found else None


def content_of(tool: str, given: Any, ids: Iterable[str]) -> CallContent:
    """Return the content of the call that a request is for, without what else the agent has said of it."""
    return shown_content(tool, dict(_fields(given)), command=command_in(given), claims=claims_in(given, ids))


def command_in(given: Any) -> str | None:
    """Return the name of the field of the raw input that is a shell command; None if there is none."""
    command = given.get("command") if isinstance(given, Mapping) else None
    is_words = isinstance(command, list) and bool(command) and all(isinstance(word, str) for word in command)
    return "command" if is_words or isinstance(command, str) else None


def paths_in(given: Any, ids: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of the fields of the raw input that are paths, or have them as names. `ids`: as in `claims_in`;
    only Codex's raw input has any."""
    if not isinstance(given, Mapping):
        return ()
    has_changes = bool([*ids]) and isinstance(given.get(CHANGES), Mapping)
    return tuple(name for name in OF_AGENTS if name in given) + (CHANGES,) * has_changes


def edits_in(tool: str, given: Any, ids: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of those paths of the raw input that are files whose text the call changes; none if it has a
    field that may say more, or deletes or moves a file. The kind in the call's name is the agent's word, so the fields
    must say it, too. `ids`: as in `paths_in`."""
    ids, names = (*ids,), paths_in(given, ids)
    if not names or not tool.endswith(".edit") or len(names) > 1:
        return ()
    known = {*names, *ids, *OF_EDIT}
    has_more = any(value is not None and name not in known for name, value in given.items())
    deletes = any(isinstance(value, str) and DELETES in value for value in given.values())
    return () if has_more or deletes or not _only_writes(given.get(CHANGES, {})) else names


def _only_writes(changes: Mapping[str, Any]) -> bool:
    """Return whether changes of files add and update them, and move none."""
    return all(
        isinstance(change, Mapping)
        and change.get("type") in ("add", "update")
        and {*change} <= {"type", "content", "unified_diff", MOVED}
        and change.get(MOVED) is None
        and DELETES not in str(change.get("unified_diff"))
        for change in changes.values()
    )


def is_same(tool: str, given: Any, permission: Permission, seen: str = "") -> bool:
    """Return whether a request is for the same call as one of the same program, in whatever words. `seen`: what a
    person saw of that one, if it had no raw input. Requests that do not say what they are for are never the same; nor
    are a raw input that is an object, and one that is none."""
    if given is None and permission.given is None:
        return tool == permission.tool and seen == permission.seen != ""
    if isinstance(given, Mapping) is not isinstance(permission.given, Mapping):
        return False
    return content_of(tool, given, ids_in(given, permission.program)).is_same(permission.content)


def allowing(options: Iterable[Option]) -> str | None:
    """Return the id of the one option that allows once; None if there is none, or more than one."""
    found = [option.id for option in options if option.kind == "allow_once"]
    return found[0] if len(found) == 1 else None


def rejecting(options: Iterable[Option]) -> str | None:
    """Return the id of the option that rejects, once rather than always; None if there is none."""
    found = sorted((option.kind != "reject_once", number) for number, option in enumerate(options) if _rejects(option))
    return list(options)[found[0][1]].id if found else None


def option_choices(options: Sequence[Option]) -> dict[str, Option]:
    """Return the options by the agent's names of them. Options that have one name, or none, get a number."""
    found: dict[str, Option] = {}
    for number, option in enumerate(options, 1):
        name = printable_text(option.name).strip() or f"option {number}"
        found[name if name not in found else f"{name} ({number})"] = option
    return found


def _rejects(option: Option) -> bool:
    return option.kind in ("reject_once", "reject_always")


def _texts(content: Any) -> str:
    """Return the texts among the content of a tool call: a reason, or a plan."""
    return "\n".join(filter(None, map(_text, content or ())))


def _text(part: Any) -> str:
    """Return the text that a part of a call's content is; "" if it is none."""
    block = part.get("content") if isinstance(part, Mapping) else None
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def _diffs(content: Any) -> str | None:
    """Return the diffs among the content of a tool call as text; None if there are none."""
    diffs = [_diff(each) for each in content or () if _is_diff(each)]
    return "\n".join(diffs) if diffs else None


def _is_diff(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "diff"


def _diff(change: Mapping[str, Any]) -> str:
    return diff_of(str(change.get("path")), str(change.get("oldText") or ""), str(change.get("newText") or ""))


def cut(text: str, most: int) -> str:
    """Return a text, of which no more than so many characters are told."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more)"


def _places(locations: Any) -> str | None:
    places = [each for each in locations or () if _is_place(each)]
    return "\n".join(f"{each['path']}:{each['line']}" if each.get("line") else each["path"] for each in places) or None


def _is_place(place: Any) -> bool:
    return isinstance(place, Mapping) and isinstance(place.get("path"), str)
