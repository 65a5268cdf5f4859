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
- Where edited arguments contain a mask, they keep the original value.
- Pure.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import msgspec
from msgspec import Raw

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
LONGEST_KEY_CHARACTERS: Final = 20_000
"""The most characters of a private key between its BEGIN and its END."""
_KEY: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_ENDS: Final = re.compile(rf"-----END (?=({_KEY})-----)")
_CREDENTIALS: Final = re.compile(
    rf"-----BEGIN (?P<key>{_KEY})-----"
    r"|(?<![A-Za-z0-9_-])(?:" + "|".join(_TOKENS) + r")(?![A-Za-z0-9_])"
    r"|(?<![A-Za-z])(?i:Authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:(?i:Bearer|Basic|Token)\s{1,4})"
    r"(?P<sent>[\w.~+/-]{6,8192}={0,2})"
    r"|(?<![A-Za-z])(?i:Bearer|Basic)\s{1,4}(?P<bearer>[\w.~+/-]{12,8192}={0,2})"
    r"|[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@'\"<>]{0,256}:(?P<password>(?![${])[^\s/@'\"<>]{1,1024})@"
)
_MARKS: Final = {
    re.compile(gate): tuple(marks.split())
    for gate, marks in {
        r"_[\w+/=-]{16}": "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ k_live_ k_test_ whsec_ npm_ rubygems_ hf_ r8_ gsk_"
        " dop_v1_ dckr_pat_ shpat_ lin_api_ ntn_ secret_ tk_",
        r"-[\w-]{10}": "sk- glpat- gldt- glrt- glcbt- glptt- glsoat- glagent- glft- gloas- glimt- GOCSPX- xox"
        " xapp- pypi- xai- PMAK- AGE-SECRET-",
        r"\.[\w-]{11}": "ya29. SG. hvs. eyJ",
        r"A(?:[KSBC]IA|Iza)": "AKIA ASIA ABIA ACCA AIza",
        r"://": "://",
        r":AA": ":AA",
        r"FlyV1 ": "FlyV1",
        r"-----BEGIN ": "-----BEGIN",
    }.items()
}
"""One of these, the dots of Discord's tokens or a word for what is sent stands in each credential. Most texts have
none, and may be long. So those of a group are looked for only if what has to follow one of them stands somewhere."""
_BEFORE: Final = {"k_live_": range(1, 2), "k_test_": range(1, 2), ":AA": range(6, 13)}
"""How far before its mark a credential begins; others begin with it. What has "://" begins with its scheme."""
_ADDRESS: Final = re.compile(r"://[^\s/:@'\"<>]{0,256}:(?![${])[^\s/@'\"<>]{1,1024}@")
_SCHEME: Final = re.compile(r"[A-Za-z0-9+.-]{2,31}\Z")
_DOTS: Final = re.compile(r"\.[\w-]{6}\.[\w-]{27}")
_WORDS: Final = ("bearer", "basic", "authorization")
_ANY_WORD: Final = re.compile(rf"(?i:{'|'.join(_WORDS)})")
_ODD_LETTERS: Final = "ıİſ"
"""Letters that an expression takes for an i or an s where case does not count."""


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


def may_hide(text: str) -> bool:
    """Whether there may be credentials in a text, or in JSON. It is quick, and never wrong if it says no."""
    return next(_marks_in(text), None) is not None or _DOTS.search(text) is not None or _may_have_words(text)


def find_credentials(text: str, longest_key: int = LONGEST_KEY_CHARACTERS) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each credential. `longest_key`: see LONGEST_KEY_CHARACTERS."""
    at, ends = 0, None
    for start in sorted(_starts(text)):
        if start < at or (found := _CREDENTIALS.match(text, start)) is None:
            continue
        at = found.end()
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


def _starts(text: str) -> set[int]:
    """Return where credentials may begin. No other place is tried: most texts are long, and have none."""
    found = set[int]()
    for mark in _marks_in(text):
        at = text.find(mark)
        while at >= 0:
            if mark != "://":
                found.update(at - before for before in _BEFORE.get(mark, (0,)) if before <= at)
            elif _ADDRESS.match(text, at) and (scheme := _SCHEME.search(text[max(0, at - 31) : at])):
                found.update(at - before for before in range(2, len(scheme[0]) + 1))
            at = text.find(mark, at + 1)
    for dots in _DOTS.finditer(text):
        found.update(range(max(0, dots.start() - 28), max(0, dots.start() - 23)))
    if text.isascii():
        text = text.lower()
        for word in _WORDS:
            at = text.find(word)
            while at >= 0:
                found.add(at)
                at = text.find(word, at + 1)
    elif _may_have_words(text):
        found.update(each.start() for each in _ANY_WORD.finditer(text))
    return found


def _marks_in(text: str) -> Iterator[str]:
    """Yield the marks that stand in a text."""
    for gate, marks in _MARKS.items():
        if gate.search(text) is not None:
            yield from (mark for mark in marks if mark in text)


def _may_have_words(text: str) -> bool:
    if any(letter in text for letter in _ODD_LETTERS):
        return True
    low = text.encode("utf-8", "surrogatepass").lower()  # of bytes only ASCII letters change: that is quick
    return any(word.encode() in low for word in _WORDS)


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
