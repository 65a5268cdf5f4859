"""The terminal channel on a real terminal, on both backends."""

import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import preloaded
import pytest

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def test_a_key_approves_the_selected_card_and_no_other(on_terminal, backend):
    """With two pending, Tab chooses, and each key decides what is shown (A13, A2)."""
    program = on_terminal(backend, "first", "second")
    program.see("2 waiting")
    program.press("\t")
    program.see("2 of 2")
    program.press("d")
    program.see("Enter")
    program.press("not now\r")
    program.see("denied by ana")
    program.press("a")
    code, out = program.end()
    results = sorted(json.loads(out))
    assert code == 0
    assert ["not now" in result for result in results] == [True, False]
    assert results[1].startswith("noted ")


def test_a_rule_is_granted_by_the_number_of_the_pattern_that_was_shown(on_terminal, backend, tmp_path: Path):
    """A7: two keys allow it; then another process with two sub-agents that do the same does not ask."""
    program = on_terminal(backend, "same")
    program.see("s w")
    program.see("Ctrl-C")
    program.press("w")
    program.see("allow always")
    program.see('{"count":1,"name":"same"}')
    program.see("Esc back")
    program.press("1")
    program.see('always: {"count":1,"name":"same"}')
    assert json.loads(program.end()[1]) == ["noted same 1"]
    again = [sys.executable, Path(__file__).with_name("asking.py"), backend, tmp_path / "state.db", "same", "same"]
    done = preloaded.run(again, stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, "SESSION": "next"})
    assert json.loads(done.stdout) == ["noted same 1", "noted same 1"]


def test_keys_that_come_together_decide_nothing(on_terminal, backend):
    """A paste is never a decision."""
    program = on_terminal(backend, "only")
    program.see("waiting for you")
    program.press("aa")
    program.see("Ctrl-C")
    program.see("Ctrl-C")
    assert "approved" not in program.text
    program.press("a")
    assert json.loads(program.end()[1]) == ["noted only 1"]


def test_edited_arguments_run_and_bad_json_keeps_the_card(on_terminal, backend):
    """What is edited is shown before it can be approved (A8)."""
    program = on_terminal(backend, "old")
    program.see("waiting for you")
    program.press("j")
    program.see('"old"')
    program.press("}\r")
    program.see("JSON")
    program.press('\x15{"name": "new", "count": 3}\r')
    program.see("edited")
    program.press("a")
    assert json.loads(program.end()[1]) == ["noted new 3"]


def test_edited_arguments_are_filled_in_field_by_field(on_terminal, backend):
    """Each field has its text; one that does not fit is asked again; the card shows them before they are approved."""
    program = on_terminal(backend, "old")
    program.see("waiting for you")
    program.press("e")
    program.see("name: old")
    program.press("\x15new\r")
    program.see("count: 1")
    program.press("x\r")
    program.see("whole number, such as")
    program.press("\x152\r")
    program.see("edited")
    program.press("a")
    assert json.loads(program.end()[1]) == ["noted new 2"]


def test_an_editor_of_the_persons_own_gets_the_terminal(on_terminal, backend, tmp_path: Path):
    """$EDITOR edits the arguments, in its own terminal mode; what it left is shown on the card."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nstty -a >&2\nsed -i.bak s/old/new/ $1\n")
    editor.chmod(0o755)
    program = on_terminal(backend, "old", EDITOR=str(editor))
    program.see("waiting for you")
    program.press("j")
    program.see(" icanon")
    program.see("new")
    program.see("edited")
    program.press("a")
    assert json.loads(program.end()[1]) == ["noted new 1"]


def test_a_card_that_is_decided_elsewhere_says_so(on_terminal, backend, tmp_path: Path):
    """Another process decides; the terminal shows who did, and the run goes on (A3, R3)."""
    program = on_terminal(backend, "only")
    program.see("approval ")
    program.see("Ctrl-C")
    approval = program.text.split("approval ")[1].split()[0]
    command = [sys.executable, "-m", "supervisor", "approve", approval, "--by", "bob", "--store", tmp_path / "state.db"]
    assert preloaded.run(command, capture_output=True).returncode == 0
    program.see("bob")
    program.see(approval)
    assert json.loads(program.end()[1]) == ["noted only 1"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_gets_its_mode_back_after_a_signal(on_terminal, backend, number):
    """Nobody is left with a shell that does not echo."""
    program = on_terminal(backend, "only")
    program.see("waiting for you")
    program.see("Ctrl-C")
    assert termios.tcgetattr(program.slave) != program.mode
    code, out = program.end(number)
    assert code != 0
    assert out == b""
    assert termios.tcgetattr(program.slave) == program.mode


def test_the_shell_gets_the_terminal_while_the_program_is_stopped(on_terminal, backend):
    """Ctrl-Z restores the mode and the cursor, and the card is back when the program goes on."""
    program = on_terminal(backend, "only", program="job_shell.py")
    program.see("Ctrl-C")
    program.press("\x1a")
    program.see("stopped: True, as it was: True")
    before = program.raw[: program.raw.index(b"stopped: True")]
    assert before.rindex(b"\x1b[?25h") > before.rindex(b"\x1b[?25l")
    program.see("Ctrl-C")
    program.press("a")
    assert json.loads(program.end()[1]) == ["noted only 1"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_command_line_gives_the_terminal_back_too(on_terminal, backend, tmp_path: Path, number, code):
    """With handlers of its own it stops gracefully, and leaves the terminal as it was (R8)."""
    program = on_terminal(backend, demo=True, TMPDIR=str(tmp_path))
    program.see("watcher cancelled")  # nothing runs any more that stopping would wait for
    program.see("3 waiting")
    assert program.end(number) == (code, b"")
    program.see("supervisor resume demo")
    assert termios.tcgetattr(program.slave) == program.mode


def test_nothing_that_an_agent_writes_is_obeyed_by_the_terminal(on_terminal, backend):
    """An escape sequence in an argument is shown, not sent."""
    program = on_terminal(backend, "\x1b]0;owned\x07\u202e")
    program.see("owned")
    program.see("Ctrl-C")
    program.press("a")
    program.end()
    assert b"\x1b]0;" not in program.raw
    assert "\u202e".encode() not in program.raw


def test_the_demonstration_is_answered_at_the_terminal(on_terminal, backend, tmp_path: Path):
    """Three cards, three keys, and the result on stdout, which nothing else touches."""
    program = on_terminal(backend, demo=True, TMPDIR=str(tmp_path))
    program.see("3 waiting")
    code, out = program.press_to_the_end("a")
    assert code == 0
    assert json.loads(out)["outcome"]["kind"] == "succeeded"
    assert termios.tcgetattr(program.slave) == program.mode


def test_without_a_terminal_cards_are_plain_lines(backend, tmp_path: Path):
    """In a log or a pipe an approval is text with its id, without any escape sequence."""
    program = Path(__file__).with_name("asking.py")
    arguments = [sys.executable, program, backend, tmp_path / "state.db", "only"]
    with preloaded.Popen(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        line = next(line for line in process.stderr if line.strip().startswith(b"approval"))
        assert len(line.split()[-1]) == 42
        assert b"\x1b" not in line
        process.kill()
