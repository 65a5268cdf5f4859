"""Writes supervisor/core/text/confusables.py from Unicode's list of characters that look alike (UTS 39):

    python -m tests.look_alikes confusables.txt

The file is https://www.unicode.org/Public/17.0.0/security/confusables.txt. It says for each character which text it
looks like. Characters that look like the same text look like each other.

What is taken
- LIKE_ASCII: what looks like one or more ASCII characters.
- SIGNS: signs that look like any other character.
- LIKE_SCRIPT: letters that look like a letter of another script, among `_SCRIPTS` and LATIN. The scripts of India and
  South-East Asia are left out: whole words of one look like words of its neighbour, and would be marked everywhere. So
  are those of China and Japan, which are written together.

What the running Python can tell by itself is left out: characters that it draws marked in any text, and those that
Unicode calls a form of another one, such as full-width letters.
"""

import sys
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from textwrap import wrap

TABLE = Path(__file__).parents[1] / "supervisor" / "core" / "confusables.py"
_SCRIPTS = ("ARMENIAN", "ARABIC", "CYRILLIC", "GREEK", "HEBREW")
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs")
_HEAD = '''"""Characters that look alike, from Unicode's confusables.txt, version {version}.

`python -m tests.look_alikes` writes this module; it says what is taken, and from where.
"""

from itertools import chain
from typing import Final


def _chars(ranges: str) -> frozenset[str]:
    """Return the characters of ranges of hexadecimal code points."""
    ends = ([int(end, 16) for end in each.split("-")] for each in ranges.split())
    return frozenset(map(chr, chain.from_iterable(range(each[0], each[-1] + 1) for each in ends)))


'''


def main(source: Path) -> None:
    """Write the table."""
    lines = source.read_text("utf-8-sig").splitlines()
    version = next(line.split()[-1] for line in lines if line.startswith("# Version:"))
    classes = defaultdict[str, set[str]](set)
    for line in lines:
        if fields := line.partition("#")[0].split(";")[:2]:
            if len(fields) < 2:
                continue
            char, looks = ("".join(chr(int(code, 16)) for code in field.split()) for field in fields)
            classes[looks] |= {char, looks} if len(looks) == 1 else {char}
    ascii_like, signs = set[str](), set[str]()
    letters = defaultdict[str, set[str]](set)
    for looks, alike in classes.items():
        is_ascii = looks.isascii() or any(map(str.isascii, alike))
        for char in filter(_is_taken, alike):
            category = unicodedata.category(char)
            if is_ascii:
                ascii_like.add(char)
            elif len(alike) > 1 and category[0] in "PS":
                signs.add(char)
            if category[0] == "L" and _script(char) in (*_SCRIPTS, "LATIN"):
                for script in {_script(other) for other in alike if _is_taken(other)} - {_script(char)}:
                    letters[script].add(char)
    tables = [
        _table("LIKE_ASCII", "Look like one or more ASCII characters.", ascii_like),
        _table("SIGNS", "Signs that look like another character that is not ASCII.", signs),
        "LIKE_SCRIPT: Final = {",
        *(f"    {line}" for name in _SCRIPTS for line in _entry(f'"{name}": ', letters[name], ",").splitlines()),
        '}\n"""Letters of other scripts that look like a letter of this one."""',
    ]
    TABLE.write_text(_HEAD.format(version=version) + "\n".join(tables) + "\n")


def _is_taken(char: str) -> bool:
    return not char.isascii() and unicodedata.category(char) not in _UNSEEN and _form(char) == char


def _form(char: str) -> str:
    """Return the character of which Unicode says that it is a form; itself if it is none."""
    form = unicodedata.normalize("NFKC", char)
    return form if len(form) == 1 or form.isascii() else char


def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


def _table(name: str, about: str, chars: Collection[str]) -> str:
    return f'{_entry(f"{name}: Final = ", chars)}\n"""{about}"""'


def _entry(name: str, chars: Collection[str], end: str = "") -> str:
    body = "\n".join(f'    "{line} "' for line in wrap(" ".join(_ranges(sorted(map(ord, chars)))), 108))
    return f"{name}_chars(\n{body}\n){end}"


def _ranges(codes: list[int]) -> Iterator[str]:
    first = None
    for code, following in zip(codes, [*codes[1:], None], strict=True):
        first = code if first is None else first
        if following != code + 1:
            yield f"{first:x}" if first == code else f"{first:x}-{code:x}"
            first = None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
