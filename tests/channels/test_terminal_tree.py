"""The tree of runs on a real terminal: next to the cards while runs go on, and from another process."""

import re
import signal
import termios

import pytest


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_tree_lives_with_the_cards_and_leaves_the_terminal_as_it_was(supervisor_on_terminal, backend, tmp_path):
    """Keys decide as ever; after a signal, and after a kill, `top` says from outside how it is."""
    program = supervisor_on_terminal("demo", "--backend", backend, TMPDIR=str(tmp_path), NO_COLOR="1")
    program.see("watcher cancelled")  # nothing runs any more that stopping would wait for
    program.see("caretaker [demo]")
    program.see("3 wait")
    program.see("approval")
    program.see("Ctrl-C")
    program.press("d")
    program.see("Enter")
    program.press("not now\r")
    program.see("denied by")
    program.see("2 wait")
    assert program.end(signal.SIGINT)[0] == 130
    assert termios.tcgetattr(program.slave) == program.mode
    assert program.raw.rfind(b"\x1b[?25h") > program.raw.rfind(b"\x1b[?25l")
    assert not re.search(rb"\x1b\[[\d;]*\b(3[0-7]|9[0-7])m", program.raw)
    looker = supervisor_on_terminal("top")
    looker.see("caretaker [demo]")
    looker.see("resume demo")
    assert looker.press_to_the_end("q")[0] == 0
    assert looker.raw.rfind(b"\x1b[?1049l") > looker.raw.rfind(b"\x1b[?1049h")
    assert termios.tcgetattr(looker.slave) == looker.mode


def test_top_shows_the_death_of_an_owner_and_ends_with_a_signal(supervisor_on_terminal, tmp_path):
    """A tree whose process died is shown as stopped; a closed window leaves the terminal as it was."""
    program = supervisor_on_terminal("demo", TMPDIR=str(tmp_path))
    program.see("3 wait")
    looker = supervisor_on_terminal("top", "demo")
    looker.see("3 wait")
    looker.see("caretaker [demo]")
    program.end(signal.SIGKILL)
    looker.see("stopped")
    assert looker.end(signal.SIGTERM)[0] == 143
    assert looker.raw.rfind(b"\x1b[?1049l") > looker.raw.rfind(b"\x1b[?1049h")
    assert termios.tcgetattr(looker.slave) == looker.mode
