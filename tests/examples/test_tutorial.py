"""Each command and program of the tutorial is run as it is written there, page after page, in one folder.

A comment before a block says how:
- `save FILE`
- `run`: each command must succeed. What stands below a command is what it prints; `...` stands for anything.
- `press KEY`: on a terminal, for each card; the command must succeed.
- `kill`: on a terminal, with SIGKILL at its first card.
- `model`: as `press a`, with a scripted model that it talks to.
- `serve`: a daemon, which goes on until the last page.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import preloaded
from on_terminal import PtyProgram

from supervisor.testing import scripted_model

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
BLOCK = re.compile(r"^(?:<!-- test: (\w+) ?([^>]*?) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CARD = "asks to call shell"


class Reader:
    """Does what the pages say, in a folder of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._env = {**os.environ, "SUPERVISOR_STORE": str(folder / "state.db"), "PYTHONPATH": str(folder)}

    def follow(self, how: str, given: str, text: str) -> None:
        getattr(self, f"_{how}")(given, text)

    def _save(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def _run(self, _: str, text: str) -> None:
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            if " ID" in command:
                (first, *_rest) = json.loads(self._done("supervisor approvals --json"))
                command = command.replace(" ID", f" {first['id']}")
            printed = self._done(command)
            pattern = re.escape(shown.strip()).replace(r"\.\.\.", "(?s:.*)")
            assert not shown or re.fullmatch(pattern, printed.strip()), f"{command}: {printed}"

    def _done(self, command: str) -> str:
        words = (
            command.replace("supervisor ", f"{sys.executable} -m supervisor ", 1)
            if command.startswith("super")
            else command
        )
        done = subprocess.run(
            words, shell=True, cwd=self._folder, env=self._env, stdin=-3, capture_output=True, text=True
        )
        assert done.returncode in (0, 3), f"{command}: {done.returncode} {done.stderr}"
        return done.stdout

    def _press(self, key: str, text: str, **env: str) -> None:
        program = self._on_terminal(text, **env)
        program.see(CARD)
        assert program.press_to_the_end(key)[0] == 0, (
            program.text
        )  # a key that comes too soon after a card does not count

    def _kill(self, _: str, text: str) -> None:
        program = self._on_terminal(text)
        program.see(CARD)
        program.end(signal.SIGKILL)

    def _model(self, _: str, text: str) -> None:
        script = [[["shell", json.dumps({"command": "ls attic"})]], "they are gone"]
        model = self._stack.enter_context(scripted_model(json.loads))
        question = {"'Which files are in the attic?'": shlex.quote(json.dumps(json.dumps(script)))}
        for shown, played in question.items():
            text = text.replace(shown, played)
        self._press("a", text, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="planted-key", OPENAI_MODEL="scripted")

    def _serve(self, _: str, text: str) -> None:
        words = shlex.split(text.strip().removeprefix("$ supervisor "))
        daemon = preloaded.Popen(
            [sys.executable, "-m", "supervisor", *words, "--port", "0"],
            cwd=self._folder,
            env=self._env,
            stdin=-3,
            stdout=-3,
            stderr=-1,
            text=True,
        )
        self._stack.callback(daemon.communicate)
        self._stack.callback(daemon.terminate)
        assert "http://" in daemon.stderr.readline()

    def _on_terminal(self, text: str, **env: str) -> PtyProgram:
        words = shlex.split(text.strip().removeprefix("$ supervisor "))
        given = {name: self._env[name] for name in ("SUPERVISOR_STORE", "PYTHONPATH")}
        program = PtyProgram(["-m", "supervisor", *words], is_whole=True, cwd=self._folder, **given, **env)
        self._stack.callback(program.close)
        return program


def test_a_reader_who_does_what_the_pages_say_sees_what_they_show(tmp_path):
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for page in sorted(TUTORIAL.glob("*.md")):
            for how, given, language, text in BLOCK.findall(page.read_text()):
                assert how, f"{page.name}: no test for the block {language}\n{text}"
                reader.follow(how, given, text)
