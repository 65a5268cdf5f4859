"""The content of a call: what runs, what is shown of it, what rules see, and what makes two calls the same.

    where a call comes in -> CallContent -> digest, rules, comparison, the facts of a card, what is sent

A call has one content. It is made where the call comes in, and again from the request in the journal. A field that one
of these readers got and another did not would be shown and not ruled, or ruled and not run.

Rules
- `raw` is what is journaled and what the effect gets. `arguments` are its JSON values; no reader has other ones.
- A field is an argument, or a claim: the caller's own words about the call. A claim is shown. It is no part of what
  rules see and of what makes two calls the same. `names_of_claims` gives our claims names that no argument has.
- A flag of a field never changes its value: a secret is masked in the digest and on cards, and the effect has it.
- Pure. Nothing is decoded before it is asked for, since most calls are asked about by no rule and no person.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET

from supervisor.core.encoding import JSON_NULL
from supervisor.core.ids import canonical_json, digest_of_value
from supervisor.core.text.masks import mask_arguments
from supervisor.core.values import Approval


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of the arguments. `value`: as the effect gets it, also if it is a secret."""

    name: str
    value: Any
    kind: Literal["argument", "claim"] = "argument"
    is_secret: bool = False
    is_default: bool = False
    """Whether it has the default value of the tool's parameter."""
    is_command: bool = False
    is_path: bool = False


class CallContent(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One call. `folder`: that of the session; None: not known. `command`, `claims`, `secret`, `defaults`, `paths`,
    `edits`: the names of the fields that are these."""

    tool: str
    raw: msgspec.Raw = JSON_NULL
    values: Any = UNSET
    """The arguments as JSON values, where only these are known: of a call that is shown, or would be edited."""
    digest: str = ""
    """Of the arguments, with secrets masked: a person was shown these."""
    folder: str | None = None
    command: str | None = None
    claims: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()

    @cached_property
    def arguments(self) -> Any:
        """The arguments as JSON values. Those of a call that a model got wrong may be no object."""
        return msgspec.json.decode(self.raw) if self.values is UNSET else self.values

    @property
    def fields(self) -> tuple[Field, ...]:
        """The top-level fields, in the order in which they were given; none if the arguments are no object."""
        if not isinstance(self.arguments, Mapping):
            return ()
        return tuple(
            Field(
                name=name,
                value=value,
                kind="claim" if name in self.claims else "argument",
                is_secret=name in self.secret,
                is_default=name in self.defaults,
                is_command=name == self.command,
                is_path=name in self.paths,
            )
            for name, value in self.arguments.items()
        )

    @property
    def ruled(self) -> Mapping[str, Any]:
        """The arguments that rules see: all but the claims."""
        found: Mapping[str, Any] = self.arguments
        return without(found, self.claims)

    @property
    def shown(self) -> Any:
        """The arguments that people see: all of them, with secrets masked."""
        return mask_arguments(self.arguments, self.secret)

    def is_same(self, other: "CallContent") -> bool:
        """Whether both are the same call, in whatever words. Calls that say nothing but claims are never the same."""
        if self.tool != other.tool or not self.ruled or not other.ruled:
            return False
        return canonical_json(self.ruled) == canonical_json(other.ruled)


class Requested(Protocol):
    """A request in the journal: ToolCallRequested, which this module is below of."""

    @property
    def tool(self) -> str: ...
    @property
    def arguments(self) -> msgspec.Raw: ...
    @property
    def digest(self) -> str: ...
    @property
    def command(self) -> str | None: ...
    @property
    def claims(self) -> tuple[str, ...]: ...
    @property
    def secret(self) -> tuple[str, ...]: ...
    @property
    def defaults(self) -> tuple[str, ...]: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def edits(self) -> tuple[str, ...]: ...


def content_of(
    tool: str, raw: msgspec.Raw, arguments: Any, *, secret: tuple[str, ...] = (), **more: Any
) -> CallContent:
    """Return the content of a call that comes in. `arguments`: the same as `raw`, as JSON values: the digest is made of
    them. `more`: further fields of the content."""
    return CallContent(
        tool=tool, raw=raw, digest=digest_of_value(mask_arguments(arguments, secret)), secret=secret, **more
    )


def shown_content(tool: str, arguments: Any, **more: Any) -> CallContent:
    """Return the content of a call of which only these arguments may be shown. `more`: further fields of it."""
    return CallContent(tool=tool, values=arguments, **more)


def content_of_request(
    request: Requested,
    folder: str | None = None,
    *,
    edited: msgspec.Raw | None = None,
    secret: tuple[str, ...] | None = None,
) -> CallContent:
    """Return the content of a call in the journal. `edited`: the arguments that a person gave it instead. `secret`: the
    names of those that today's code declares secret; None: as the request has them."""
    return CallContent(
        tool=request.tool,
        raw=request.arguments if edited is None else edited,
        digest=request.digest,
        folder=folder,
        command=request.command,
        claims=request.claims,
        secret=request.secret if secret is None else secret,
        defaults=request.defaults if edited is None else (),
        paths=request.paths,
        edits=request.edits,
    )


def digest_of_edit(arguments: Any, secret: Collection[str], asked: str) -> str:
    """Return the digest of arguments that a person gave instead of those whose digest is `asked`. It is another one,
    too, if only a secret differs; two such edits have the same."""
    digest = digest_of_value(mask_arguments(arguments, secret))
    return digest if digest != asked else digest_of_value(["edited", asked])


def content_of_approval(approval: Approval) -> CallContent:
    """Return the content of a call, as far as an approval shows it: without what is masked there."""
    return shown_content(
        approval.tool,
        approval.arguments,
        folder=approval.cwd,
        command=approval.command,
        claims=approval.claims,
        secret=approval.secret,
    )


def without(arguments: Mapping[str, Any], claims: Collection[str]) -> Mapping[str, Any]:
    """Return the arguments that are no claims."""
    return {name: value for name, value in arguments.items() if name not in claims} if claims else arguments


def names_of_claims(arguments: Collection[str], claims: Iterable[str]) -> dict[str, str]:
    """Return the name of each of our claims among these arguments: its own, unless an argument has it.

    Arguments of foreign programs may have any name, so there is no name that is ours for ever. One that is taken gets a
    number, and the argument keeps its name: rules are about it.
    """
    found: dict[str, str] = {}
    taken = set(arguments)
    for claim in claims:
        name, number = claim, 1
        while name in taken:
            number += 1
            name = f"{claim} ({number})"
        taken.add(name)
        found[claim] = name
    return found
