"""What the how-to pages of coding agents show, so that tests do what a reader does."""

import re
import shlex
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/how-to"


class Page:
    """One page. `run`: the words of its `supervisor run`; `reference`: the agent in it; `command`: what that starts."""

    def __init__(self, name: str) -> None:
        self._text = (FOLDER / name).read_text()
        (line,) = re.findall(r"^\$ supervisor (run .*)$", self._text, re.MULTILINE)
        self.run = shlex.split(line)
        self.reference = self.run[1]
        self.command = shlex.split(self.reference.removeprefix("acp:"))

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", self._text, re.MULTILINE | re.DOTALL)

    def run_with(self, prompt: str, *options: str) -> list[str]:
        """Return the words of the command with another prompt, and with more options."""
        verb, reference, _, *rest = self.run
        return [verb, without_sandbox(reference), prompt, *rest, *options]


def without_sandbox(text: str) -> str:
    """Codex's sandbox needs bubblewrap and namespaces. Without them it runs a command again without the sandbox, asks a
    second time, or gives up. So tests run it without."""
    return text.replace("workspace-write", "danger-full-access")


PAGES = {"opencode": Page("opencode.md"), "codex-acp": Page("codex.md"), "gemini": Page("gemini-cli.md")}
"""By the name of the program."""
