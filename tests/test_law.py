"""The law: each code such as `(A4)` names a rule of docs/reference/guarantees.md, and a test names each rule."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = ("supervisor", "tests", "docs", "examples", "benchmarks", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
KINDS = {".py", ".md", ".sql", ".html", ".js", ".css", ".yaml", ".toml"}
NOT_RULES = {"tests/channels/chat/test_signed_payloads.py": {"A1", "A2", "T1", "T2"}}  # ids of apps and teams in Slack

CODE = re.compile(r"\b[WARTBL][0-9]{1,2}\b")
SHAPE = re.compile(r"\b[A-Z][0-9]{1,2}\b(?<!slack:C1)")  # that is a conversation of Slack
HEADING = re.compile(r"^### ([WARTBL][0-9]{1,2})$", re.MULTILINE)
RULES = set(HEADING.findall((ROOT / "docs/reference/guarantees.md").read_text()))
UNSHIPPED = re.compile(r"\b(?:design|style|semantics|vocabulary|house|public_face)\.md\b|\(#[0-9]+|\bissue [0-9]+")


def is_made(path: Path) -> bool:
    """Whether a build of the site has written it (docs/from_code.py)."""
    return "made" in path.parts or path == ROOT / "docs/index.md"


def texts() -> Iterator[tuple[str, str]]:
    """Each file in which a reader could meet a code: its path from the root, and its text."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*")) if (ROOT / place).is_dir() else [ROOT / place]:
            if path.suffix in KINDS and path != Path(__file__) and not is_made(path):
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def codes(name: str, text: str) -> set[str]:
    return set(CODE.findall(text)) - NOT_RULES.get(name, set())


def anchors(file: Path) -> set[str]:
    """The fragments that GitHub makes of a document's headings: lower case, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_code_names_a_rule():
    """A code without a heading in the guarantees is a riddle to a reader of the repository."""
    unknown = {name: found for name, text in texts() if (found := codes(name, text) - RULES)}
    assert not unknown


def docstrings(source: str) -> str:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))
    return "\n".join(each for each in found if each)


def test_no_docstring_has_a_code_of_another_page():
    """What looks like the code of a rule is one."""
    sources = {name: text for name, text in texts() if name.endswith(".py") and {*SHAPE.findall(text)} - RULES}
    unknown = {name: found for name, text in sources.items() if (found := {*SHAPE.findall(docstrings(text))} - RULES)}
    assert not unknown


def test_each_rule_is_named_by_a_test():
    """A test that proves a rule says which, in its docstring or in a comment."""
    tests = [(name, text) for name, text in texts() if Path(name).name.startswith("test_")]
    named = {code for name, text in tests for code in codes(name, text)}
    assert not RULES - named


def test_the_rules_are_numbered_without_gaps():
    """W1 to W13, A1 to A19, R1 to R11, T1 to T9: the page is whole."""
    numbers = {letter: sorted(int(rule[1:]) for rule in RULES if rule[0] == letter) for letter in "WART"}
    assert numbers == {"W": [*range(1, 14)], "A": [*range(1, 20)], "R": [*range(1, 12)], "T": [*range(1, 10)]}


def test_links_in_the_documents_lead_somewhere():
    """A relative link names a file of the repository, and its fragment a heading there."""
    broken = []
    for name, text in texts():
        if name.endswith(".md"):
            for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
                path, _, fragment = target.partition("#")
                file = (ROOT / name).parent / path if path else ROOT / name
                if not file.exists() or (fragment and fragment not in anchors(file)):
                    broken.append(f"{name}: {target}")
    assert not broken


def test_each_document_is_in_the_index():
    """A document that docs/README.md does not link to is not found."""
    index = (ROOT / "docs/README.md").read_text()
    documents = {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md") if not is_made(path)
    }
    assert {name for name in documents - {"README.md"} if f"]({name})" not in index} == set()


def test_no_text_names_a_document_that_readers_do_not_have():
    """Neither a page of the design from which the package was built, nor an issue of another tracker, by its number."""
    assert not {name: found for name, text in texts() if (found := UNSHIPPED.findall(text))}
