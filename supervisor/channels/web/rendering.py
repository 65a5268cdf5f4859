"""Renders templates as pages, in the only environment for them, which makes all texts harmless.

Rules
- The environment makes every expression visible and then escapes it. Only its own macros return markup, and their texts
  pass the same two steps. A text is made visible once: a template says `shown` of what cards have drawn, `name` of what
  must not look like another one, and `prose` of what people read (core/text/visible.py). Others may be either.
- Attributes are quoted, and `url` makes all addresses, so that no foreign text begins one.
- An unknown name in a template is an error, not an empty text.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from supervisor.channels.wording.granting import ending_of
from supervisor.core.approvals.drawing import direction_of
from supervisor.core.approvals.facts import ago, instant_text
from supervisor.core.calls.rules import why_void
from supervisor.core.telling import Part, drawn
from supervisor.core.text.masks import hide
from supervisor.core.text.visible import visible

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The Content-Security-Policy of every page: nothing inline, nothing from elsewhere."""
HEADERS: Final = {"content-security-policy": POLICY, "referrer-policy": "same-origin"}
"""A page that sends no referrer at all sends its forms with the origin "null", too, and those are refused."""

MOST_CHARACTERS: Final = 20_000
"""Of one text of a session; the journal has all of it."""
PIECE_CHARACTERS: Final = 12_000
"""Of a long page that is sent as it is drawn: about a screen of it."""
ASSETS: Final = ("inbox.css", "inbox.js", "icon.svg")
MEDIA_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


class _Shown(str):
    """A text that was made visible before."""

    __slots__ = ()


def shown(text: Any) -> _Shown:
    """Return a text that cards have drawn, as it is."""
    return _Shown(text)


def name(text: Any) -> _Shown:
    """Return a name or another text of code, made visible."""
    return _Shown(visible(str(text), lines=True))


def prose(text: Any) -> _Shown:
    """Return what people read, made visible, with its credentials masked."""
    return _Shown(visible(hide(str(text)), kind="prose", lines=True))


def told(part: Part) -> _Shown:
    """Return a part of a sentence of core/telling.py."""
    return _Shown(drawn(part, MOST_CHARACTERS, lines=True))


def direction(part: Part) -> str:
    """Return the `dir` of a part that a program takes."""
    return direction_of(part.text) if part.kind == "argument" else "ltr"


def _finalize(value: Any) -> Any:
    """What every expression of a template goes through before it is escaped."""
    if isinstance(value, Markup | _Shown):
        return value
    return "" if value is None else visible(str(value), kind="words", lines=True)


def duration(length: timedelta) -> str:
    """Return a duration in its two largest units."""
    seconds = length.total_seconds()
    if seconds < 10:
        return f"{seconds:.1f} s"
    parts = []
    rest = round(seconds)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join(parts[:2])


def ordered(text: str) -> _Shown:
    """Return a rule's pattern, marked so that a browser keeps the order in which it was written."""
    return _Shown(visible(text, lines=True, ordered=True))


def as_typed(text: str) -> Markup:
    """Return what a person typed, escaped and otherwise unchanged: the content of a control is submitted again, and
    must come back as it was typed. A text of an agent is in a control only if it is visible
    (core/approvals/fields.py)."""
    return escape(text)


def url(*parts: str) -> str:
    """Return an address on this server."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


@cache
def asset(name: str) -> tuple[bytes, str]:
    """Return a file of static/, one of ASSETS, and a name of this version of it."""
    body = resources.files(__package__).joinpath("static", name).read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:12]


def asset_url(name: str) -> str:
    """Return the address of a file of static/. Each version has its own, so that browsers may cache it."""
    return f"{url('static', name)}?v={asset(name)[1]}"


@cache
def environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters.update(ago=ago, at=instant_text, duration=duration, as_typed=as_typed)
    found.filters.update(told=told, direction=direction)
    found.filters.update(shown=shown, name=name, prose=prose, ordered=ordered, void=why_void, ending=ending_of)
    found.globals.update(url=url, asset_url=asset_url)
    return found


def render(template: str, now: datetime, **model: Any) -> str:
    """Return a page. `now`: the instant from which its ages are counted; times are shown in its time zone."""
    return environment().get_template(template).render(now=now, **model)


def pieces(template: str, now: datetime, **model: Any) -> Iterator[str]:
    """Yield a page in pieces of at least PIECE_CHARACTERS, each as soon as it is drawn."""
    drawn, length = list[str](), 0
    for text in environment().get_template(template).generate(now=now, **model):
        drawn.append(text)
        length += len(text)
        if length >= PIECE_CHARACTERS:
            yield "".join(drawn)
            drawn, length = [], 0
    yield "".join(drawn)
