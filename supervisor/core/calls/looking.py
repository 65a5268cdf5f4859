"""Programs that only look, with all that may stand in a command of theirs: options, their values, and operands.

A prefix such as `grep *` covers words that no person has seen. `LOOKING` says which words a program may have, so that
it reads files of the folder and what it is fed, and does nothing else: it writes no file, runs no other program, asks
no other host, and shows no variable of its environment. What is not in the table is not known, and a person is asked.

    grep: [cinrvw] -A# --include= -e= | text path*

Each line is a command, then its options, then its operands. Of the options, `[...]` is any of these letters, alone or
together; `-#` is a number (`-20`); `-A#` an option with a number, and `-e=` or `--include=` one with a text, as the
same word or, with a single dash, as the next one; any other is itself. Operands are shapes, in their order: the last
may end in `*` (any number of it) or `?` (one at most).

Rules
- A text that is no path may be any text: the program takes it as what it looks for, or prints it.
- A path stays in the folder: it has no `..`, and is not absolute but for one inside of the folder (`inside`). It begins
  like the name of a file, and not with `@`, `|` or `+`. Words do not show where a link leads.
- A lone `--` ends the options; a lone `-` is what the program is fed.
- `find`, the script of `sed -n` and the filter of `jq` have readers of their own, since they are languages. No
  option of git has a format that runs another program.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TABLE: Final = """
basename: -a | text*
cat: [bEnsTtuv] | path*
cmp: [bls] | path*
column: [tx] -s= | path*
comm: [123] | path*
cut: [s] -b= -c= -d= -f= --complement | path*
date: [uR] -I -d= | format?
df: [hTi] | path*
diff: [abBdiNpqruwy] -U# --brief --color= --stat --unified | path*
dirname: | text*
du: [abchksx] -d# --max-depth= | path*
echo: [neE] | text*
egrep: [aciEFGHhIlLnoqrRsvwxz] -A# -B# -C# -m# -e= --color --color= --include= --exclude= --exclude-dir= | pattern
    path*
expand: [i] -t# | path*
false: |
fgrep: [aciEFGHhIlLnoqrRsvwxz] -A# -B# -C# -m# -e= --color --color= --include= --exclude= --exclude-dir= | pattern
    path*
file: [bi] | path*
find: | find
fold: [bs] -w# | path*
git blame: [ews] -L= -C -M --date= | revision*
git branch: [arv] -vv --all --list --merged --no-color --no-merged --remotes --show-current |
git describe: --abbrev= --all --always --dirty --long --tags | revision*
git diff: [pRw] -U# --cached --check --color --color= --name-only --name-status --no-color --numstat --shortstat
    --staged --stat --summary --word-diff | revision*
git log: [pi] -# -n# -L= -S= -G= --after= --all --author= --before= --branches --date= --decorate --first-parent
    --follow --format= --graph --grep= --max-count= --merges --name-only --name-status --no-color --no-decorate
    --no-merges --no-patch --numstat --oneline --patch --pretty= --reverse --shortstat --since= --stat --tags --until=
    | revision*
git ls-files: [cdmos] --cached --deleted --exclude-standard --modified --others --stage | path*
git reflog: -# -n# |
git rev-parse: --abbrev-ref --git-dir --is-inside-work-tree --short --show-toplevel --verify | revision*
git shortlog: [ens] | revision*
git show: [pw] -U# --color= --format= --name-only --name-status --no-color --no-patch --numstat --oneline --patch
    --pretty= --shortstat --stat | revision*
git stash list: |
git status: [bsuvz] --branch --ignored --long --porcelain --porcelain=v1 --porcelain=v2 --short --show-stash
    --untracked-files= | path*
git tag: -n --list -l |
grep: [aciEFGHhIlLnoPqrRsvwxz] -A# -B# -C# -m# -e= --color --color= --count --exclude= --exclude-dir=
    --extended-regexp --files-with-matches --fixed-strings --ignore-case --include= --invert-match --line-number
    --max-count= --no-messages --only-matching --quiet --recursive --word-regexp | pattern path*
head: [qv] -# -n# -c# --bytes= --lines= | path*
hexdump: [Cv] -n# -s# | path*
id: [ugGn] |
jq: [acCeMnrsS] --compact-output --exit-status --indent# --null-input --raw-output --slurp --sort-keys --tab | filter
    path*
ls: [1AaBCcdFfGghHiklLmNnopqRrSstTuUvXx] --all --almost-all --color --color= --directory --group-directories-first
    --human-readable --recursive --reverse --size --sort= --time= | path*
md5sum: | path*
nl: -b= -w# | path*
od: [bcdox] -A= -N# -t= | path*
paste: [s] -d= | path*
pwd: [LP] |
readlink: [efm] | path*
realpath: [em] | path*
rev: | path*
rg: [cFHiIlLnNopqSsuUvwx] -A# -B# -C# -m# -e= -g= -t= -T= --color --color= --context= --count --files
    --files-with-matches --fixed-strings --glob= --heading --hidden --ignore-case --json --line-number --max-count=
    --max-depth= --no-filename --no-heading --no-ignore --only-matching --smart-case --sort= --stats --type=
    --type-not= --vimgrep --word-regexp | pattern path*
sed -n: [Er] | script path*
seq: [w] -s= | text*
sha1sum: | path*
sha256sum: | path*
sleep: | number
sort: [bdfghiMnRrsuVz] -k= -t= --numeric-sort --reverse --unique --version-sort | path*
stat: [fLt] -c= --format= --printf= | path*
strings: [a] -n# | path*
tac: | path*
tail: [qv] -# -n# -c# --bytes= --lines= | path*
tr: [cCdst] | text text?
tree: [aAdDfFhinpQrstuU] -I= -L# -P= --dirsfirst --noreport | path*
true: |
uname: [amnprsv] |
uniq: [cdiuz] -f# -s# -w# --count --repeated --unique | path?
wc: [cLlmw] --bytes --chars --lines --words | path*
which: [a] | text*
whoami: |
"""

_PATH: Final = re.compile(r"[A-Za-z0-9_./\[({][ -~]*")
_NUMBER: Final = re.compile(r"[+-]?\d{1,9}")
_REVISION: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_@%+:,./~^{}-]*")
_FORMAT: Final = re.compile(r"\+[ -~]*")
_LINE: Final = r" *(?:\d+|\$|/[^/\\]+/)(?: *, *\+?(?:\d+|\$|/[^/\\]+/))? *p *"
_SCRIPT: Final = re.compile(rf"{_LINE}(?:;{_LINE})*;?")
_FILTER: Final = re.compile(r"\b(?:env|import|include|modulemeta)\b|ENV")
"""What a filter of jq does not have: it could show a variable, or load a module."""
_SIGNATURE: Final = "%G"
"""In a format of git: it runs another program, which reads the signature."""
_FIND_ALONE: Final = _names("! ( ) -a -and -daystart -depth -empty -ls -mount -not -o -or -print -print0 -prune")
_FIND_WITH_TEXT: Final = _names(
    "-iname -ipath -iregex -maxdepth -mindepth -mmin -mtime -name -path -perm -regex -size -type -user"
)


class _Command(NamedTuple):
    letters: str
    alone: frozenset[str]
    numbers: frozenset[str]
    texts: frozenset[str]
    operands: tuple[str, ...]


def _read_table() -> dict[tuple[str, ...], _Command]:
    found = {}
    for line in _TABLE.replace("\n    ", " ").strip().splitlines():
        head, _, operands = line.partition("|")
        name, _, options = head.partition(":")
        words = options.split()
        found[tuple(name.split())] = _Command(
            letters="".join(word[1:-1] for word in words if word.startswith("[")),
            alone=frozenset(word for word in words if not word.startswith("[") and word[-1] not in "#="),
            numbers=frozenset(word[:-1] for word in words if word.endswith("#")),
            texts=frozenset(word[:-1] for word in words if word.endswith("=")),
            operands=tuple(operands.split()),
        )
    return found


LOOKING: Final[Mapping[tuple[str, ...], _Command]] = _read_table()


def looking_prefix(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words of LOOKING with which a command begins, if there are any."""
    begins = tuple(words[:3])
    return next((begins[:count] for count in (3, 2, 1) if begins[:count] in LOOKING), None)


def only_looks(words: Sequence[str], inside: str | None) -> bool:
    """Return whether a command only looks, at its folder and at what it is fed. `inside`: the folder of which absolute
    paths may be; None: of none."""
    begins = looking_prefix(words)
    if begins is None:
        return False
    command, rest = LOOKING[begins], list(words[len(begins) :])
    if command.operands == ("find",):
        return _is_find(rest, inside)
    operands: list[str] = []
    has_pattern = has_ended = False
    while rest:
        word = rest.pop(0)
        if has_ended or word == "-" or not word.startswith("-"):
            operands.append(word)
        elif word == "--":
            has_ended = True
        elif (taken := _option(command, word, rest)) is None:
            return False
        else:
            has_pattern |= taken in ("-e", "--files")
    shapes = command.operands[1:] if has_pattern else command.operands
    return _fit(operands, shapes, inside)


def _option(command: _Command, word: str, rest: list[str]) -> str | None:
    """Return the name of an option that may be there, and take its value; None for any other word."""
    name, mark, value = word.partition("=")
    if word in command.alone or (word.startswith("--") and mark and name in command.texts):
        return name if _SIGNATURE not in value else None
    if word.startswith("--"):
        if name in command.numbers and not mark and rest and _NUMBER.fullmatch(rest[0]):
            rest.pop(0)
            return name
        return None
    if "-" in command.numbers and word[1:].isdigit():
        return "-"
    name, value = word[:2], word[2:]
    if name in command.numbers:
        value = value or (rest.pop(0) if rest else "")
        return name if _NUMBER.fullmatch(value) else None
    if name in command.texts:
        return name if value or (rest and rest.pop(0) is not None) else None
    return word if len(word) > 1 and all(letter in command.letters for letter in word[1:]) else None


def _fit(operands: list[str], shapes: Sequence[str], inside: str | None) -> bool:
    """Return whether operands have these shapes, each in its place."""
    if shapes and shapes[0] == "pattern" and not operands:
        return False
    for place, operand in enumerate(operands):
        shape = shapes[min(place, len(shapes) - 1)] if shapes else ""
        if not shape or (place >= len(shapes) and not shape.endswith("*")):
            return False
        if not _SHAPES[shape.rstrip("*?")](operand, inside):
            return False
    return True


def is_inside(path: str, inside: str | None) -> bool:
    """Return whether a path, as text, stays in the folder."""
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        return False
    return not path.startswith("/") or (inside is not None and f"{path}/".startswith(f"{inside.rstrip('/')}/"))


def _is_revision(word: str, inside: str | None) -> bool:
    """Return whether a word is a revision, a range of them, a file of one, or a path: never an address."""
    if "::" in word or "//" in word:
        return False
    is_path = word.startswith("/") and is_inside(word, inside)
    return is_path or (_REVISION.fullmatch(word) is not None and ".." not in word.replace("...", "..").split("/"))


def _is_find(words: list[str], inside: str | None) -> bool:
    """Return whether the words of `find` begin no program, write and delete nothing."""
    at = 0
    while at < len(words) and not words[at].startswith(("-", "!", "(")):
        if not is_inside(words[at], inside):
            return False
        at += 1
    while at < len(words):
        if words[at] in _FIND_WITH_TEXT:
            at += 1
        elif words[at] not in _FIND_ALONE:
            return False
        at += 1
    return at == len(words)


_SHAPES: Final[Mapping[str, Callable[[str, str | None], bool]]] = {
    "text": lambda word, inside: True,
    "pattern": lambda word, inside: True,
    "path": is_inside,
    "number": lambda word, inside: re.fullmatch(r"\d{1,4}(?:\.\d{1,3})?", word) is not None,
    "revision": _is_revision,
    "format": lambda word, inside: _FORMAT.fullmatch(word) is not None,
    "script": lambda word, inside: _SCRIPT.fullmatch(word) is not None,
    "filter": lambda word, inside: _FILTER.search(word) is None,
}
