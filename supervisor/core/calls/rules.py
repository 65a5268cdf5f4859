"""Rules: standing decisions on calls, and the policy that they come to (A7).

    allow("shell", "git status *")      allow("deploy", '{"environment":"staging"}')      deny("shell", "rm *")

A rule is a value: allow, deny or ask, on a tool and a pattern of its arguments, from code, configuration, the
command line or a decision. `policy_of` applies all of them to one call. It may be called at any time and any number of
times (before asking, after an edit, immediately before the effect: A8, A9); it changes and remembers nothing.
`why_asked` says in words why a call asks, for the person who is asked.

Rules
- Deny beats ask beats allow, whatever the order of the rules. If no rule applies, the tool's own policy decides. If it
  is in doubt whether a deny applies, a person is asked (A5), and an allow does not count.
- An allow must be proved to mean this very call; a pattern that is not understood allows nothing.
- A pattern is a JSON object of arguments (core/calls/patterns.py), or a command (core/calls/shell_patterns.py), for
  calls of a tool that declares which argument is its shell command. None means any arguments: the whole tool.
- The pattern of a rule on a tool that declares paths may be a path, `/srv/notes.md` or `/srv/app/**`, for calls with
  whatever other arguments. No allow with a pattern covers a call that names a file of ours.
- The pattern of an allow on a tool that edits files may be a grant, `edits inside /srv/app` (core/calls/edits.py).
- Whether a call has a command is journaled with its request. A rule may be on a tool that this process does not know: a
  command on a tool without one allows nothing, and its deny asks.
- A denial of a person that stands (`exact`) denies what an allow of the same pattern would allow: this very call. It is
  no prefix, and never in doubt.
- A rule with a `session` counts in the tree of that root session; one without it always.
- An allowance is an allow that ends: after so many `uses`, or at an instant. What it has left is counted in journals
  (runtime/plans/allowances.py), so `policy_of` is given only those that have not ended.
- Rules are inherited downwards; a sub-agent's own rules can deny and ask, and never allow more (A14).

The module is longer than 400 lines because what rules say of a call, why, and what may be granted are one reading.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, get_args

import msgspec

from supervisor.core.budgets import TOOL as BUDGET
from supervisor.core.calls import edits as core_edits, paths as core_paths, patterns, shell_patterns, shell_words
from supervisor.core.calls.content import CallContent, content_of_approval
from supervisor.core.calls.folders import folder_of_call, known_folder, with_folder
from supervisor.core.calls.shell_lists import CommandList, covers_part, meant_patterns, read_list
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import canonical_json
from supervisor.core.text.visible import Kind, is_visible
from supervisor.core.values import Allowance, Approval, Option, Policy, check_bounds

MAX_SHOWN_CHARACTERS: Final = 1000  # characters of a pattern that a person can be expected to read before granting it
_WRITTEN: Final = ("code", "configuration")
"""Origins of rules that stand where no one looks at them when a program starts: they stop no start."""
_ONCE: Final = Option("once")
_SKEW: Final = timedelta(minutes=1)
"""By so much the clocks of two machines may differ."""


class NamedTool(Protocol):
    """The tool that a rule is about: its name, and which of its arguments is a shell command, and which are paths."""

    @property
    def name(self) -> str: ...
    @property
    def command(self) -> str | None: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def edits(self) -> tuple[str, ...]: ...


AnyTool: TypeAlias = str | NamedTool


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A standing decision. Made by `allow`, `deny` and `ask`, which refuse rules that could not work as written."""

    kind: Policy
    tool: str
    pattern: str | None = None
    session: str | None = None
    """The root session in whose tree the rule counts; None: always."""
    unreviewed: bool = False
    """Whether its pattern is a prefix that is not known to be harmless, and its author said so."""
    paths: bool = False
    """Whether its pattern is a path: a file or, with `/**`, all below a folder (core/calls/paths.py)."""
    exact: bool = False
    """Of a deny: whether it denies only what an allow of its pattern would allow, as a person's denial does."""
    reason: str | None = None
    """Of a person's denial: the reason, which the agent reads."""
    origin: str = "code"
    """Where it comes from: code, configuration, command line, decision (then `approval` names it)."""
    id: str | None = None
    """The id by which it is revoked, given by the store; None for a rule in code."""
    by: str | None = None
    """The person who added it; None for a rule in code. Likewise when, and by which approval's decision."""
    added_at: datetime | None = None
    approval: str | None = None
    uses: int | None = None
    """How many calls it allows; None: it is not counted."""
    until: datetime | None = None
    """The instant from which on it allows no further call; None: it has none."""
    used: int = 0
    """Of a listed rule: how many calls have used it."""
    ended: bool = False
    """Of a listed rule: whether it is used up, or its time is over."""

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What it says, wherever it comes from: two rules of the same meaning are one. One with uses is like no other:
        a second one gives so many more."""
        counted = None if self.uses is None else (self.uses, self.id)
        return self.kind, self.tool, self.pattern, self.session, self.exact, self.unreviewed, self.until, counted

    @property
    def is_allowance(self) -> bool:
        """Whether it ends by itself."""
        return self.uses is not None or self.until is not None

    def has_time(self, now: datetime, latest: datetime | None = None) -> bool:
        """Whether its time is not over. While the clock is before the instant at which it was added, or before the
        `latest` one of a journal, it has none: a clock that is set back gives it no time."""
        known = (each for each in (self.added_at, latest) if each is not None)
        return self.until is None or (now < self.until and all(each <= now + _SKEW for each in known))

    def __str__(self) -> str:
        """Return the rule as people read it, with what it is from."""
        whose = f"from {self.origin}" if self.id is None else f"{self.id}, added by {self.by}"
        ends = end_words(self.uses, self.until)
        return (
            f"the rule `{self.kind} {self.tool}{'' if self.pattern is None else f': {self.pattern}'}`{ends} ({whose})"
        )


def end_words(uses: int | None, until: datetime | None) -> str:
    """Return when an allowance ends, in words; "" for a rule without an end."""
    counted = "" if uses is None else " for one call" if uses == 1 else f" for {uses} calls"
    return counted if until is None else f"{counted} until {until:%Y-%m-%d %H:%M:%S %Z}"


def allow(
    tool: AnyTool,
    pattern: str | None = None,
    *,
    session: str | None = None,
    unreviewed: bool = False,
    uses: int | None = None,
    until: datetime | None = None,
) -> Rule:
    """Allow calls of a tool without asking; without a pattern all of them.

    `session`: only in the tree of this root session; also in `ask` and `deny`. `uses`: only so many calls, for
    `add_rule`, since a store counts them. `until`: only calls that are asked for before this instant.
    `unreviewed`: also if the pattern is a prefix of a shell command that was not reviewed: its further words may run
    anything. docs/reference/prefixes.md lists the reviewed prefixes. Raises InvalidInput for a pattern that cannot be
    understood, and for a prefix that is not reviewed, or that would certainly run anything (`python *`). A prefix that
    was reviewed once, and is not any more, allows nothing.
    """
    return make_rule("allow", tool, pattern, "code", session, unreviewed=unreviewed, uses=uses, until=until)


def deny(tool: AnyTool, pattern: str | None = None, *, session: str | None = None) -> Rule:
    """Deny calls of a tool; without a pattern all of them. A shell pattern is a prefix, with or without its ` *`."""
    return make_rule("deny", tool, pattern, "code", session)


def ask(tool: AnyTool, pattern: str | None = None, *, session: str | None = None) -> Rule:
    """Ask a person about calls of a tool, also if a rule allows them; a pattern has the same meaning as in `deny`."""
    return make_rule("ask", tool, pattern, "code", session)


def make_rule(
    kind: Policy,
    tool: AnyTool,
    pattern: str | None,
    origin: str,
    session: str | None = None,
    *,
    unreviewed: bool = False,
    paths: bool = False,
    exact: bool = False,
    reason: str | None = None,
    uses: int | None = None,
    until: datetime | None = None,
) -> Rule:
    """Return a rule of any kind; `unreviewed` is as in `allow`, and ignored for the others. `paths`: its pattern is a
    path, also of a tool of which only the name is known. `exact` and `reason` are as in Rule, of a deny; `uses` and
    `until` of an allow. Raises InvalidInput."""
    check_bounds(uses, until)
    if kind != "allow" and (uses, until) != (None, None):
        raise InvalidInput("`uses` and `until` end what is allowed; a deny and an ask hold until they are revoked")
    name = tool if isinstance(tool, str) else tool.name
    if not name.strip() or "*" in name:
        raise InvalidInput(f"{name!r} is not the name of a tool; a rule is on one tool, named exactly")
    if name == BUDGET and kind != "ask":  # an `ask` only says who may decide it
        raise InvalidInput(f"no rule covers {BUDGET}: a person decides each question about a budget, each time")
    is_offered = origin == "decision"  # it was looked at when it was offered, perhaps by an earlier version
    if pattern is not None and not _is_readable(pattern, "code" if kind == "allow" and not is_offered else "prose"):
        raise InvalidInput(
            f"the pattern {pattern!r} has characters that are invisible or look like others, or more than "
            f"{MAX_SHOWN_CHARACTERS} of them"
        )
    is_grant = pattern is not None and _is_grant_of_edits(tool, pattern, kind, origin)
    is_path = pattern is not None and not is_grant and (paths or _is_path(tool, pattern))
    is_command = pattern is not None and not is_path and not is_grant and _is_command(tool, pattern)
    if is_grant and pattern is not None:
        pattern = core_edits.normalise(pattern)
    elif is_path and pattern is not None:
        pattern = core_paths.normalise(pattern)
    elif pattern is not None:
        read_as = "allow" if exact else kind
        pattern = shell_patterns.normalise(read_as, pattern) if is_command else patterns.normalise(pattern)
    why = shell_patterns.why_not_reviewed(pattern) if kind == "allow" and pattern is not None and is_command else None
    is_old = why is not None and pattern is not None and origin in _WRITTEN and shell_patterns.has_lost_review(pattern)
    if why is not None and not unreviewed and not is_old:
        raise InvalidInput(
            f"{why}. Allow exact commands, or this prefix all the same: in code with unreviewed=True, on the command "
            "line with --unreviewed"
        )
    marked = why is not None and unreviewed
    return Rule(
        kind=kind,
        tool=name,
        pattern=pattern,
        unreviewed=marked,
        paths=is_path,
        exact=exact,
        reason=reason,
        origin=origin,
        session=session,
        uses=uses,
        until=until,
    )


def why_void(rule: Rule) -> str | None:
    """Return why a rule allows no call at all, although it was accepted once: its prefix is not reviewed any more. None
    for every other rule."""
    if rule.kind != "allow" or rule.pattern is None or rule.paths or not _is_command(rule.tool, rule.pattern):
        return None
    return shell_patterns.why_covers_nothing(rule.pattern, unreviewed=rule.unreviewed)


def policy_of(
    rules: Iterable[Rule], content: CallContent, *, root_session: str | None, **how: Any
) -> tuple[Policy, Rule] | None:
    """Return what the rules say about a call, and the first rule that decided, as `rules_that_say` does."""
    said = rules_that_say(rules, content, root_session=root_session, **how)
    return None if said is None else (said[0], said[1][0])


def rules_that_say(
    rules: Iterable[Rule],
    content: CallContent,
    *,
    root_session: str | None,
    settled: core_paths.Settled = MappingProxyType({}),
    ours: Collection[str] = (),
    is_former: bool = False,
) -> tuple[Policy, tuple[Rule, ...]] | None:
    """Return what the rules say about a call, and the rules that decided, which are several where a list of commands is
    allowed; None if the tool's own policy decides. Of several that allow all of it, the first one counts.

    Of the content: `arguments` are all of them, defaults filled in. `folder`: the folder in which the tool runs
    commands that name none; None: unknown, and a rule that names a folder covers only calls that name it. Claims are
    not seen (see `is_about`). With any secret, only an allow without a pattern allows; a deny that mentions one asks.
    `paths`: those of the tools in `core/calls/paths.py` are known. `settled`: where paths lead. `ours`: our own files,
    which no allow with a pattern covers. `is_former`: as former versions read a search (Environment.is_former).
    """
    said: dict[Policy, Rule] = {}
    names = content.paths or core_paths.OF_TOOLS.get(content.tool, ())
    # What kind of tool a call with claims is, is the agent's word, so any of them may search.
    is_search = not is_former and (content.tool in core_paths.SEARCHING or bool(content.claims))
    call = _Call(
        content.ruled, content.folder, content.command, content.secret, names, settled, ours, is_search, content.edits
    )
    is_empty = bool(content.claims) and not call.arguments
    of_parts: list[Rule] = []
    for rule in rules:
        if rule.session is not None and rule.session != root_session:
            continue
        if not is_about(rule, content.tool, content.claims):
            continue
        if is_empty and rule.kind == "allow":
            continue
        if (kind := _say(rule, call)) is not None:
            said.setdefault(kind, rule)
        elif rule.kind == "allow" and content.command is not None and not rule.paths:
            of_parts.append(rule)
    for kind in ("deny", "ask", "allow"):
        if kind in said:
            return kind, (said[kind],)
    if not of_parts or is_former or call.secret:
        return None
    whole = read_list(call.arguments, call.cwd, content.command or "")
    allowing = () if whole is None else call.rules_of_parts(whole, of_parts)
    is_allowed = whole is not None and len(allowing) == len(whole.parts)
    return ("allow", tuple(dict.fromkeys(allowing))) if is_allowed else None


def is_about(rule: Rule, tool: str, claims: Collection[str]) -> bool:
    """Return whether a rule is on a tool. If a call has claims, the part of its tool's name after the last dot is one,
    too. Then a rule that denies or asks by arguments is about each tool whose name differs in that part only, and a
    rule that allows without a pattern is about none: it would go by that part alone. A grant of edits to one tool of
    an editor is about its others."""
    if rule.tool != tool and rule.kind == "allow" and rule.tool in core_edits.like(tool):
        return core_edits.folder_in(rule.pattern) is not None
    ours, dot, _ = tool.rpartition(".") if claims else ("", "", tool)
    if not dot or (rule.tool == tool and rule.kind != "allow"):
        return rule.tool == tool
    if rule.kind == "allow":
        return rule.tool == tool and rule.pattern is not None
    return rule.pattern is not None and rule.tool.rpartition(".")[0] == ours


def named_paths(
    rules: Iterable[Rule], arguments: Mapping[str, Any], names: Collection[str], cwd: str | None
) -> set[str]:
    """Return the paths of a call, its folder if one is not given, and the paths in the patterns of rules on its tool:
    the environment settles them."""
    own = arguments.get("cwd")
    folder = folder_of_call(cwd or "", own if isinstance(own, str) else None) or None
    found = {core_paths.spelled(each or ".", folder) for each in core_paths.paths_of(arguments, names)}
    for rule in rules:
        if (granted := core_edits.folder_in(rule.pattern)) is not None:
            found.add(granted)
        elif rule.paths and rule.pattern is not None:
            found.add(core_paths.read(rule.pattern)[0])
        elif rule.pattern is not None and (fields := patterns.read_object(rule.pattern)) is not None:
            given = (each for each in core_paths.paths_of(fields, names) if each is not None)
            found |= {core_paths.spelled(each.removesuffix(core_paths.BELOW), folder) for each in given}
    return {each for each in found if each is not None}


def named_edits(content: CallContent) -> set[str]:
    """Return the paths that a grant of edits in the session's folder compares."""
    folder = known_folder(content.folder)
    if not content.edits or folder is None:
        return set()
    found = {folder, core_paths.spelled(folder, None)}
    found |= {core_paths.spelled(each or ".", folder) for each in core_paths.paths_of(content.ruled, content.edits)}
    return {each for each in found if each is not None}


def inherit(above: Iterable[Rule], own: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules of a sub-agent: the rules above it, and those of its own that do not widen them."""
    return (*above, *(rule for rule in own if rule.kind != "allow"))


def without_effect(above: Iterable[Rule], own: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules of a sub-agent that allow what no rule above it allows: they change nothing (A14)."""
    allowed = {(rule.tool, rule.pattern) for rule in above if rule.kind == "allow"}
    return tuple(
        rule for rule in own if rule.kind == "allow" and not {(rule.tool, rule.pattern), (rule.tool, None)} & allowed
    )


def grantable(content: CallContent) -> tuple[str | None, ...]:
    """Return the patterns that may be granted or denied for more than this call: the exact one, then a prefix if there
    is a safe one. None means exactly these arguments: a pattern would only repeat them on disk.

    Every pattern covers this call. There is none if the exact one is not readable. A call without arguments, or with
    nothing but claims, says nothing of what is approved, and can be granted only once. So can a call with arguments
    that may not be shown.
    """
    ruled, cwd = content.ruled, content.folder
    if content.secret or not ruled:
        return ()
    if content.command is None:
        exact, prefix = patterns.exact_pattern(with_folder(ruled, cwd)), None
    else:
        exact = shell_patterns.exact_pattern(ruled, cwd, content.command)
        prefix = shell_patterns.prefix_pattern(ruled, cwd, content.command)
    if exact is None or not _is_readable(exact, "words" if content.command is None else "code"):
        return ()
    found, whole = (exact,) if prefix is None else (exact, prefix), patterns.to_json(content.arguments)
    return tuple(None if pattern == whole else pattern for pattern in found)


def offered(
    content: CallContent,
    *,
    settled: core_paths.Settled = MappingProxyType({}),
    ours: Collection[str] = (),
) -> tuple[str | None, ...]:
    """Return the `grantable` patterns of a call and, where these have no prefix, what a person means by "always"
    (`npm run check *`): the patterns of its commands, a line each. These may be allowed, and no denial is made of
    them: it would deny each command by itself. A call that edits files in the session's folder has the grant of edits
    there, last. `settled`, `ours`: as in `policy_of`."""
    found = grantable(content)
    if content.edits:
        return (*found, *_grant_of_edits(content, settled, ours))
    if len(found) != 1 or content.command is None:
        return found
    meant = meant_patterns(content.ruled, content.folder, content.command)
    text = "\n".join(meant)
    is_shown = len(text) <= MAX_SHOWN_CHARACTERS and all(_is_readable(each, "code") for each in meant)
    return (*found, text) if meant and is_shown else found


def _grant_of_edits(content: CallContent, settled: core_paths.Settled, ours: Collection[str]) -> tuple[str, ...]:
    folder = known_folder(content.folder)
    if folder is None:
        return ()
    pattern = core_edits.normalise(core_edits.pattern_of(folder))
    rule = Rule(kind="allow", tool=content.tool, pattern=pattern)
    is_covered = policy_of([rule], content, root_session=None, settled=settled, ours=ours) is not None
    return (pattern,) if is_covered and _is_readable(pattern, "code") else ()


def patterns_of(pattern: str) -> tuple[str, ...]:
    """Return the patterns of an option, each of which becomes a rule. Lines are patterns if each ends as a prefix: no
    other pattern of several lines ends so."""
    lines = tuple(pattern.split("\n"))
    return lines if all(line.endswith(" *") for line in lines) else (pattern,)


def is_meant(pattern: str, approval: Approval) -> bool:
    """Return whether a pattern is what a person means by allowing this call always."""
    if approval.command is None or not isinstance(approval.arguments, dict):
        return False
    content = content_of_approval(approval)
    return pattern in meant_patterns(content.ruled, content.folder, approval.command)


def offer(found: Iterable[str | None], arguments: Mapping[str, Any]) -> tuple[Option, ...]:
    """Return the ways in which a call may be granted: once, and each `grantable` one for the session and for always."""
    options: tuple[Option, ...] = (_ONCE,)
    for pattern in found:
        text = canonical_json(arguments).decode() if pattern is None else pattern
        options += (Option("session", text), Option("always", text))
    return options


def allowances(
    found: Sequence[str | None], arguments: Mapping[str, Any], given: Iterable[int]
) -> tuple[Allowance, ...]:
    """Return the allowances that are offered first, of what a person means by the call: the last of the patterns.
    `given`: uses and minutes; 0: none of that kind."""
    if not found:
        return ()
    text = canonical_json(arguments).decode() if found[-1] is None else found[-1]
    uses, minutes = given
    counted = (Allowance(text, uses=uses),) if uses else ()
    return (*counted, Allowance(text, minutes=minutes)) if minutes else counted


def find_option(options: Iterable[Option], scope: str, pattern: str | None) -> Option | None:
    """Return the offered option that a decision names, or None; without a pattern, the scope's exact one (A5)."""
    return next(
        (
            each
            for each in options
            if each.scope == scope
            and (each.pattern == pattern or (pattern is None and core_edits.folder_in(each.pattern) is None))
        ),
        None,
    )


def deniable(approval: Approval) -> tuple[Option, ...]:
    """Return the ways in which a call may be denied. They do not depend on the rules: a deny beats them all."""
    if not isinstance(approval.arguments, dict):
        return (_ONCE,)
    return offer(grantable(content_of_approval(approval)), approval.arguments)


def checked_rule(rule: Rule) -> Rule:
    """Return a rule as `allow`, `deny` or `ask` would have made it; raises InvalidInput."""
    if rule.kind not in get_args(Policy):
        raise InvalidInput(f"{rule.kind!r} is not a kind of rule; make the rule with allow, deny or ask")
    made = make_rule(
        rule.kind,
        rule.tool,
        rule.pattern,
        rule.origin,
        rule.session,
        unreviewed=rule.unreviewed,
        paths=rule.paths,
        exact=rule.exact and rule.kind == "deny",
        reason=rule.reason if rule.kind == "deny" else None,
        uses=rule.uses,
        until=rule.until,
    )
    if (why := why_void(made)) is not None:
        raise InvalidInput(f"{why}. Allow exact commands, or mark it as unreviewed")
    return made


def why_asked(
    ruled: tuple[Policy, Rule] | None,
    rules: Iterable[Rule],
    content: CallContent,
    *,
    root_session: str | None,
    not_counted: Iterable[Rule] = (),
) -> str:
    """Return why a person is asked about a call, in words. `ruled`: what `policy_of` has said of it, and the others are
    as there. `not_counted`: the rules of a sub-agent that its parents do not have (`inherit`)."""
    if ruled is not None:
        rule = ruled[1]
        return f"{rule} asks" if rule.kind == "ask" else f"{rule} may be meant: whether it is cannot be proved"
    tool, claims = content.tool, content.claims
    call = _Call(
        content.ruled, content.folder, content.command, content.secret, content.paths, MappingProxyType({}), ()
    )
    about = [rule for rule in rules if rule.kind == "allow" and rule.session in (None, root_session)]
    if own := [rule for rule in not_counted if rule.kind == "allow" and is_about(rule, tool, claims)]:
        covering = next((rule for rule in own if _say(rule, call) == "allow"), None)
        if covering is not None:
            return f"{covering} of the agent does not count: its parents do not allow the call"
    if claims and not call.arguments:
        return "no rule can allow a call of which only the agent's own words are known"
    if content.edits and (why := _why_no_edit(content, about)):
        return why
    if content.secret:
        return "no rule allows it: with secret arguments, only a rule for the whole tool could"
    if content.command is not None:
        return _why_no_command(call, [rule for rule in about if is_about(rule, tool, claims)])
    return "no rule allows it"


def _why_no_edit(content: CallContent, about: Iterable[Rule]) -> str:
    """Return what keeps a file from the grant of the folder that it is in; "" if there is no such grant."""
    for rule in about:
        folder = core_edits.folder_in(rule.pattern) if is_about(rule, content.tool, content.claims) else None
        for given in core_paths.paths_of(content.ruled, content.edits) if folder is not None else ():
            path = None if given is None else core_paths.spelled(given, content.folder)
            if path is not None and path.startswith(f"{folder}/") and (why := core_edits.why_not_covered(path)):
                return f"{rule} does not cover it: {why}"
    return ""


def _why_no_command(call: "_Call", about: list[Rule]) -> str:
    """Return why no rule allows a command: the part that keeps the nearest one from it."""
    assert call.command is not None
    text = call.arguments.get(call.command)
    words = shell_words.simple_words(text) if isinstance(text, str) else None
    if isinstance(text, str) and words is None:
        whole = read_list(call.arguments, call.cwd, call.command)
        if whole is None:
            return "no rule allows it: it is no list of simple commands, so only a rule for exactly this text could"
        patterned = [rule for rule in about if rule.pattern is not None and not rule.paths]
        covered = len(call.rules_of_parts(whole, patterned))
        if covered == len(whole.parts):
            return "no rule with a pattern allows what names a file of the supervisor"
        return f"no rule allows its part `{' '.join(whole.parts[covered][0].words)}`"
    given = words if words is not None else tuple(text) if isinstance(text, list | tuple) else ()
    for rule in about:
        prefix = () if rule.pattern is None else shell_patterns.prefix_of(rule.pattern)
        if not prefix or given[: len(prefix)] != prefix:
            continue
        for count in range(len(prefix), len(given) + 1):
            shorter = {**call.arguments, call.command: list(given[:count])}
            if not call._replace(arguments=shorter).is_covered(rule, str(rule.pattern)):
                part = given[count - 1] if count > len(prefix) else ""
                return f"{rule} does not allow it, because of " + (f"`{part}`" if part else "its folder or its time")
    return "no rule allows it"


def _is_path(tool: AnyTool, pattern: str) -> bool:
    """Return whether a pattern is a path. If only the name of the tool is known, `/**` says it, or that name."""
    if not pattern.startswith("/"):
        return False
    if isinstance(tool, str):
        return tool in core_paths.OF_TOOLS or (pattern.endswith(core_paths.BELOW) and " " not in pattern)
    return tool.command is None and bool(tool.paths)


def _is_grant_of_edits(tool: AnyTool, pattern: str, kind: Policy, origin: str) -> bool:
    """Return whether a pattern is a grant of edits. Raises InvalidInput for one that could cover nothing."""
    if not pattern.startswith(core_edits.INSIDE) or (not isinstance(tool, str) and tool.command is not None):
        return False
    folder = core_edits.folder_in(core_edits.normalise(pattern)) if core_edits.folder_in(pattern) is not None else None
    why = (
        f"{pattern!r} names no folder: write {core_edits.INSIDE}/srv/app"
        if folder is None
        else f"{pattern!r} can only be allowed: deny or ask about the folder itself, as {folder}/**"
        if kind != "allow"
        else f"tool {tool.name} says of no argument that it is a file which it edits: declare edits="
        if not isinstance(tool, str) and not tool.edits
        else core_edits.why_no_folder(folder)
    )
    if why is not None and origin != "decision":  # a decision may be about a command that reads so
        raise InvalidInput(why)
    return why is None


def _is_command(tool: AnyTool, pattern: str) -> bool:
    """Return whether a pattern is one of commands. If only the name of the tool is known, its text decides."""
    fields = patterns.read_object(pattern)
    if isinstance(tool, str):
        return fields is None and not pattern.startswith('{"')
    return tool.command is not None and (fields is None or tool.command in fields)


class _Call(NamedTuple):
    """A call as rules see it: see `policy_of`."""

    arguments: Mapping[str, Any]
    cwd: str | None
    command: str | None
    secret: Collection[str]
    paths: Collection[str]
    settled: core_paths.Settled
    ours: Collection[str]
    is_search: bool = False
    """Whether its tool may read what is below its paths."""
    edits: Collection[str] = ()

    def is_covered(self, rule: Rule, pattern: str) -> bool:
        if not self._is_matched(rule, pattern):
            return False
        return not self.ours or not core_paths.names_any(self.ours, self.arguments, self._folder, self.settled)

    def rules_of_parts(self, whole: CommandList, about: Sequence[Rule]) -> tuple[Rule, ...]:
        """Return the rules that allow the commands of a list, one for each, up to the first one that is not allowed."""
        found: list[Rule] = []
        for at, (part, places) in enumerate(whole.parts):
            covering = (each for each in about if covers_part(str(each.pattern), whole, at, unreviewed=each.unreviewed))
            rule = next(covering, None)
            if rule is None or any(
                core_paths.names_any(self.ours, part.words, place, self.settled) for place in places or (None,)
            ):
                break
            found.append(rule)
        return tuple(found)

    @property
    def _folder(self) -> str | None:
        own = self.arguments.get("cwd")
        return folder_of_call(self.cwd or "", own if isinstance(own, str) else None) or None

    def _is_matched(self, rule: Rule, pattern: str) -> bool:
        if self.command is None and core_edits.folder_in(pattern) is not None:
            return core_edits.covers(pattern, self.arguments, self.edits, self.paths, self._folder, self.settled)
        if rule.paths:
            is_tool_of_files = self.command is None and not self.secret
            return is_tool_of_files and core_paths.covers(
                pattern, self.arguments, self.paths, self._folder, self.settled
            )
        if self.command is None:
            return patterns.covers(pattern, self.arguments, self.cwd)
        return shell_patterns.covers(pattern, self.arguments, self.cwd, self.command, unreviewed=rule.unreviewed)

    def is_met(self, rule: Rule, pattern: str) -> bool | None:
        """Return whether a deny or ask pattern matches; None in doubt, also if it mentions a secret argument."""
        met = self._meets(rule, pattern, self.arguments)
        if met or not self.is_search:
            return met
        also = self._meets(rule, pattern, core_paths.searched(self.arguments, self.paths))
        return met if also is False else also

    def _meets(self, rule: Rule, pattern: str, arguments: Mapping[str, Any]) -> bool | None:
        if rule.paths:
            if self.command is not None or any(name in self.secret for name in self.paths):
                return None
            return core_paths.meets(
                pattern, arguments, self.paths, self._folder, self.settled, is_search=self.is_search
            )
        fields = patterns.fields_of(pattern)
        if self.secret and any(name in self.secret for name in (self.command, *(fields or ()))):
            return None
        if self.command is None or (fields is not None and self.command not in fields):
            return patterns.meets(pattern, arguments, self.cwd, self.paths, self.settled, is_search=self.is_search)
        return shell_patterns.meets(pattern, arguments, self.command)


def _say(rule: Rule, call: _Call) -> Policy | None:
    """Return what a rule on the tool says; in doubt it asks, unless it would allow."""
    if rule.kind == "allow":
        is_proved = rule.pattern is None or (not call.secret and call.is_covered(rule, rule.pattern))
        return "allow" if is_proved else None
    if rule.exact and rule.pattern is not None:
        return rule.kind if not call.secret and call.is_covered(rule, rule.pattern) else None
    met = rule.pattern is None or call.is_met(rule, rule.pattern)
    if met is False:
        return None
    return "deny" if met and rule.kind == "deny" else "ask"


def _is_readable(text: str, kind: Kind) -> bool:
    """Return whether a person can read all of it: not too long, no invisible characters, and, as code, none that look
    like others."""
    return len(text) <= MAX_SHOWN_CHARACTERS and is_visible(text, kind)
