"""Plain English in the product and its documents: words that make a sentence hard to read, and may only become fewer.
And a module that is long says why.

A sentence names its actor ("the runner", "a caller") where it said "nobody" or "whoever", and says "after", "while" or
"next to" where it said "behind" or "beside". A change that lowers a count lowers the ceiling, too.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACES = ("supervisor", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
KINDS = {".py", ".md", ".sql", ".html", ".js", ".css"}

CEILINGS = {
    "nobody": 3,  # each is the value of `mention`
    "whoever": 0,
    "somebody": 0,
    "anybody": 0,
    "everybody": 0,
    "behind": 9,
    "beside": 10,  # each is the value of `if_running`
    "how-many-th": 0,
    "did not come to": 0,
    "came to nothing": 0,
    "taken up": 0,
    "at rest": 1,
    "is said": 0,
    "verdict": 0,
}
NAMES = re.compile(
    r"def (test_(?:what|who|whatever|whoever|how|nobody|somebody)_\w+|test_\w*_(?:nobody|somebody|beside)_\w*)"
)


@pytest.fixture(scope="module")
def text() -> str:
    """All that a reader of the product meets, as one text, with lines joined so that no word pair is cut."""
    roots = [ROOT / place for place in PLACES]
    files = [path for root in roots for path in (root.rglob("*") if root.is_dir() else [root]) if path.suffix in KINDS]
    return " ".join(" ".join(path.read_text().split()) for path in files)


@pytest.mark.parametrize("word", CEILINGS)
def test_a_hard_word_does_not_spread(text, word):
    """A count above its ceiling: say it with an actor and a plain word, and leave the ceiling where it is."""
    assert len(re.findall(rf"\b{word}\b", text, re.IGNORECASE)) <= CEILINGS[word]


def test_the_name_of_a_test_begins_with_its_subject():
    """As in a sentence of the product: "a late decision is a result", not "what cannot be decided is a result"."""
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert NAMES.findall(tests) == []


def test_a_module_over_400_lines_says_why():
    said = re.compile(r"(?:longer|more) than 400 lines")
    long = [path for path in (ROOT / "supervisor").rglob("*.py") if path.read_text().count("\n") > 400]
    silent = [path.name for path in long if not said.search(ast.get_docstring(ast.parse(path.read_text())) or "")]
    assert silent == []


UNIT = re.compile(
    r"^(_?[A-Z][A-Z_]*)(?:: Final)? = [\d.(]+[^\n#]*(?:# (?i:the most |most )?|\n\"\"\"(?i:the most )?)"
    r"((?i:milliseconds|seconds|minutes|bytes|characters|levels)|UTF-16 units)\b",
    re.MULTILINE,
)


def test_a_constant_that_measures_ends_with_its_unit():
    """A reader of `wait(LONGEST_SECONDS)` need not look it up."""
    found = [
        (path.name, name)
        for path in (ROOT / "supervisor").rglob("*.py")
        for name, unit in UNIT.findall(path.read_text())
        if not name.endswith("_" + unit.removeprefix("UTF-16 ").upper())
    ]
    assert found == []
