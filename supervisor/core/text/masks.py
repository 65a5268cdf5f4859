"""Masks of values that people and programs may not read: secrets that a tool declares, and credentials.

A tool declares which of its parameters are secret. A credential is a text of a well-known form anywhere in a value: the
token of a platform, what follows "Bearer", a private key, the password of an address. Its form says what it is, so no
measure of randomness is used: a mask that comes by guess hides what a person must read.

Rules
- The whole value of a secret is masked, whatever its structure. Arguments that are not an object are masked whole. A
  value that is not set (null) is shown: it is not a secret.
- Of a text with credentials only these are masked, each with its number, and all else is shown. Equal ones have the
  same number. A number whose mask stands in the text itself is not used.
- A private key ends with its END, or with the text, if either is near enough. All ENDs of a text are found at once: to
  look for one after each BEGIN would take seconds for a text of nothing but BEGINs.
- A mask is a view: the journal, the digest and the effect have the value.
- A long text is searched once: where its credentials stand is remembered by its digest, so that an inbox which is drawn
  again searches nothing. What is remembered are places, never a text.
- Where edited arguments contain a mask, they keep the original value.
- Pure.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import wraps
from hashlib import blake2b
from itertools import count
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")

MASK: Final = "[secret]"
"""Replaces a secret value wherever people and programs look; approvers type it to leave the value unchanged."""
_NUMBERED: Final = re.compile(r"\[secret \d{1,6}\]")
_TOKENS: Final = (
    r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{30,255}",  # GitHub
    r"glpat-[\w-]{18,255}|gl(?:dt|rt|cbt|ptt|soat|agent|ft|oas|imt)-[\w-]{18,255}",  # GitLab
    r"sk-(?=[\w-]{0,255}\d)[\w-]{20,255}",  # OpenAI, Anthropic, OpenRouter and others
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{20,255}",  # Stripe, signatures of webhooks
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # Amazon
    r"AIza[\w-]{35}|ya29\.[\w-]{20,2048}|GOCSPX-[\w-]{20,255}",  # Google
    r"xox[abeprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255}",  # Slack
    r"\d{6,12}:AA[\w-]{30,64}",  # Telegram
    r"[MNO][A-Za-z\d_-]{23,27}\.[\w-]{6}\.[\w-]{27,64}",  # Discord
    r"npm_[A-Za-z0-9]{30,255}|pypi-AgE[\w-]{50,512}|rubygems_[a-f0-9]{40,64}",  # registries of packages
    r"hf_[A-Za-z0-9]{30,255}|r8_[A-Za-z0-9]{30,255}|gsk_[A-Za-z0-9]{40,255}|xai-[A-Za-z0-9]{40,255}",  # models
    r"dop_v1_[a-f0-9]{40,128}|dckr_pat_[\w-]{20,255}|shpat_[a-f0-9]{32}|SG\.[\w-]{16,64}\.[\w-]{16,128}",
    r"lin_api_[A-Za-z0-9]{30,255}|ntn_[A-Za-z0-9]{30,255}|secret_[A-Za-z0-9]{40,64}|PMAK-[a-f0-9]{20,40}-[a-f0-9]{30,40}",
    r"tk_[a-z0-9]{29}|AGE-SECRET-KEY-1[A-Z0-9]{50,64}|hvs\.[\w-]{20,255}|FlyV1 [\w+/=,-]{20,2048}",
    r"eyJ[\w-]{8,4096}\.eyJ[\w-]{8,4096}\.[\w-]{8,4096}",  # a JSON Web Token
)
REMEMBERED_CHARACTERS: Final = 2_000
"""The fewest characters of a text of which it is remembered what was found."""
MOST_REMEMBERED: Final = 10_000
"""The most texts of which it is remembered. The oldest one is forgotten first."""
SHORTEST_CHARACTERS: Final = 15
"""The fewest characters of a credential other than the password of an address: those of `xapp-` and `xoxb-`."""
MOST_PLACES: Final = 100
"""The most credentials of a text that are remembered."""
LONGEST_KEY_CHARACTERS: Final = 20_000
"""The most characters of a private key between its BEGIN and its END."""
_KEY: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_ENDS: Final = re.compile(rf"-----END (?=({_KEY})-----)")
_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]{1,30}"
_LOGIN: Final = r"://[^\s/:@'\"<>]{0,256}:(?P<password>(?![${])[^\s/@'\"<>]{1,1024})@"
_CREDENTIALS: Final = re.compile(
    rf"-----BEGIN (?P<key>{_KEY})-----"
    r"|(?<![A-Za-z0-9_-])(?:" + "|".join(_TOKENS) + r")(?![A-Za-z0-9_])"
    r"|(?<![A-Za-z])(?i:Authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:(?i:Bearer|Basic|Token)\s{1,4})"
    r"(?P<sent>[\w.~+/-]{6,8192}={0,2})"
    r"|(?<![A-Za-z])(?i:Bearer|Basic)\s{1,4}(?P<bearer>[\w.~+/-]{12,8192}={0,2})"
    rf"|{_SCHEME}{_LOGIN}"
)
_SCHEME_BEFORE: Final = re.compile(rf"{_SCHEME}\Z")
_ADDRESS_ONLY: Final = re.compile(_LOGIN)
"""Finds what _CREDENTIALS finds in a text with no mark but that of an address, many times faster: it begins with the
mark. _SCHEME_BEFORE must then end before it."""
_ADDRESS: Final = "://"
_MARKS: Final = (
    "PRIVATE KEY",
    *re.findall(
        r"\S+",
        "sk- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glcbt- glptt- glsoat- glagent- glft- gloas-"
        " glimt- k_live_ k_test_ whsec_ AKIA ASIA ABIA ACCA AIza ya29. GOCSPX- xox xapp- :AA npm_ pypi- rubygems_ hf_"
        " r8_ gsk_ xai- dop_v1_ dckr_pat_ shpat_ SG. lin_api_ ntn_ secret_ PMAK- tk_ AGE-SECRET- hvs. FlyV1 eyJ",
    ),
)
_DISCORD: Final = re.compile(r"\.[\w-]{6}\.[\w-]{27}")
_MORE_MARKS: Final = tuple(map(re.compile, (r"[bB](?i:earer|asic)", r"[zZ](?i:ation)")))
"""One of these, _DISCORD or _ADDRESS stands in each credential. Most texts have none, and may be long: to look for each
mark by itself takes half as long as one expression for all, which would try them at every letter."""


def mask_arguments(arguments: Any, secret: Collection[str]) -> Any:
    """Return arguments, as JSON values, with their declared secrets masked."""
    if not secret:
        return arguments
    if not isinstance(arguments, Mapping):
        return MASK
    return {name: MASK if name in secret and value is not None else value for name, value in arguments.items()}


def unmask(arguments: Mapping[str, Any], original: Raw, secret: Collection[str]) -> dict[str, Any]:
    """Return edited arguments with the original values where the approver left a mask."""
    kept = msgspec.json.decode(original)
    hidden = {shown: value for value, shown in _numbered(mask_arguments(kept, secret)).items()}
    found = _changed(arguments, lambda text: _NUMBERED.sub(lambda each: hidden.get(each[0], each[0]), text))
    kept = kept if isinstance(kept, dict) else {}
    return {
        name: kept.get(name) if name in secret and arguments[name] == MASK else value for name, value in found.items()
    }


def hide(value: Any) -> Any:
    """Return a JSON value with the credentials in its texts masked; the value itself if there are none."""
    known = _numbered(value)
    return _changed(value, lambda text: _masked(text, known)) if known else value


def hides(value: Any) -> bool:
    """Whether there are credentials in a JSON value."""
    return bool(_numbered(value))


def _remembered(find: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function that looks at a long text once, as long as it is among those that are remembered."""
    known: dict[bytes, T] = {}

    @wraps(find)
    def recall(text: str) -> T:
        if len(text) < REMEMBERED_CHARACTERS:
            return find(text)
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        if (kept := known.get(key)) is not None:
            return kept
        found = find(text)
        if not isinstance(found, tuple) or len(found) <= MOST_PLACES:
            if len(known) >= MOST_REMEMBERED:
                known.pop(next(iter(known)), None)
            known[key] = found
        return found

    return recall


@_remembered
def may_hide(text: str) -> bool:
    """Whether there may be credentials in a text, or in JSON. It is quick, and never wrong if it says no."""
    return _ADDRESS in text or _has_mark(text)


def _has_mark(text: str) -> bool:
    """Whether there may be credentials other than the password of an address in a text."""
    if len(text) < SHORTEST_CHARACTERS:
        return False
    for mark in _MARKS:  # any() with a generator takes twice as long, and each approval is looked at
        if mark in text:
            return True
    if _DISCORD.search(text) is not None:
        return True
    if text.isascii():  # no letter is another one's other case: this takes a quarter of the time
        lower = text.lower()
        return "bearer" in lower or "basic" in lower or "zation" in lower
    return any(mark.search(text) is not None for mark in _MORE_MARKS)


@_remembered
def find_credentials(text: str) -> tuple[tuple[int, int], ...]:
    """Return the beginning and the end of each credential, in order."""
    return tuple(search_credentials(text))


def search_credentials(text: str, longest_key: int = LONGEST_KEY_CHARACTERS) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each credential. `longest_key`: see LONGEST_KEY_CHARACTERS."""
    at, ends = 0, None
    if not _has_mark(text):
        yield from _find_passwords(text)
        return
    while (found := _CREDENTIALS.search(text, at)) is not None:
        start, at = found.span()
        if found["key"] is not None:
            ends = _ends_of_keys(text) if ends is None else ends
            end = _end_of_key(text, ends.get(found["key"], ()), at, longest_key)
            if end is None:
                at = start + 1
            else:
                yield start, (at := end)
            continue
        group = next((name for name in ("sent", "bearer", "password") if found[name]), 0)
        if group != "bearer" or not _is_prose(found["bearer"]):
            yield found.span(group)


def _find_passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the passwords of addresses; `_CREDENTIALS` finds the same."""
    at = 0
    while (found := _ADDRESS_ONLY.search(text, at)) is not None:
        start = found.start()
        if _SCHEME_BEFORE.search(text[max(at, start - 31) : start]) is None:
            at = start + 1
            continue
        at = found.end()
        yield found.span("password")


def _ends_of_keys(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return where each END of a private key begins and ends, in order, by what it calls the key."""
    ends: dict[str, list[tuple[int, int]]] = {}
    for found in _ENDS.finditer(text):
        ends.setdefault(found[1], []).append((found.start(), found.end(1) + len("-----")))
    return ends


def _end_of_key(text: str, ends: Sequence[tuple[int, int]], start: int, longest: int) -> int | None:
    """Return where a private key ends whose text begins at `start`; None if that is too far. `ends`: of such keys."""
    place = bisect_left(ends, (start, 0))
    if place < len(ends) and ends[place][0] - start <= longest:
        return ends[place][1]
    return len(text) if len(text) - start <= longest else None


def _is_prose(text: str) -> bool:
    """Whether what follows "bearer" or "basic" is a word: letters, of which no one but the first is a capital."""
    return not any(char.isdigit() for char in text) and text[1:].islower()


def _numbered(value: Any) -> dict[str, str]:
    """Return the mask of each credential in a JSON value."""
    texts = [*_texts(value)]
    found = dict.fromkeys(text[start:end] for text in texts for start, end in find_credentials(text))
    if not found:
        return {}
    taken = {each for text in texts for each in _NUMBERED.findall(text)}
    masks = (each for number in count(1) if (each := f"[secret {number}]") not in taken)
    return dict(zip(found, masks, strict=False))


def _masked(text: str, known: Mapping[str, str]) -> str:
    pieces, at = list[str](), 0
    for start, end in find_credentials(text):
        pieces += [text[at:start], known[text[start:end]]]
        at = end
    return "".join([*pieces, text[at:]])


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value. Names are none: people edit arguments by them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _changed(each, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each, change) for each in value]
    return value
