"""Keys: decodes a terminal's bytes into names of keys, and sets the mode of the terminal in which single keys arrive.

Rules
- Keys that arrive in one read stay together: several keys at once are a paste or type-ahead, and the reader can tell.
- A bracketed paste is one key, however many reads it takes. None of its characters is a key press.
- A short silence tells a lone ESC from the beginning of a sequence.
- The terminal gets its old mode back on every exit: the end of the block, an exception, and each signal whose default
  action would end the process. A signal handler of other code is never replaced.
- A process in the background does not read: the keys belong to the shell, and the kernel stops a reader.
"""

import codecs
import os
import re
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import anyio

from supervisor.channels.terminal.line import PASTED

IN_BACKGROUND_SECONDS: Final = 0.2
"""Seconds between two checks whether this process is in the foreground again, while keys wait to be read."""
ESCAPE_SILENCE_SECONDS: Final = 0.03
"""Seconds after which a lone ESC is the key, not the beginning of a sequence."""

_SEQUENCES: Final = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "[H": "home",
    "[F": "end",
    "OH": "home",
    "OF": "end",
    "[1~": "home",
    "[4~": "end",
    "[3~": "delete",
    "[Z": "backtab",
}
_PASTE, _PASTE_END = "[200~", "\x1b[201~"
_BRACKETS_ON, _BRACKETS_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
_CONTROLS: Final = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"}
_SEQUENCE: Final = re.compile(r"\x1b(O.|\[[0-?]*[ -/]*[@-~])", re.DOTALL)
_UNFINISHED: Final = re.compile(r"\x1b(O?|\[[0-?]*[ -/]*)", re.DOTALL)


class KeyDecoder:
    """Turns bytes into keys: a printable character stands for itself, every other key has a name."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._paste: str | None = None
        """The part of an unfinished paste that has arrived."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the last bytes may be the beginning of a longer sequence."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        text = self._rest + self._decode(data)
        self._rest = ""
        keys: list[str] = []
        while text:
            if self._paste is not None:
                pasted, end, text = (self._paste + text).partition(_PASTE_END)
                self._paste = None if end else pasted
                keys += [PASTED + pasted.replace("\r\n", "\n").replace("\r", "\n")] if end else []
            elif text.startswith("\x1b" + _PASTE):
                self._paste, text = "", text.removeprefix("\x1b" + _PASTE)
            elif text[0] == "\x1b" and (match := _SEQUENCE.match(text)):
                keys.append(_SEQUENCES.get(match[1], "unknown"))
                text = text[match.end() :]
            elif text[0] == "\x1b" and _UNFINISHED.fullmatch(text):
                self._rest, text = text, ""
            elif text[0] == "\x1b":
                keys.append("esc")
                text = text[1:]
            else:
                keys.append(_name(text[0]))
                text = text[1:]
        return keys

    def flush(self) -> list[str]:
        """Return the keys of an unfinished sequence to which no more bytes came: ESC, and the characters after it."""
        rest, self._rest = self._rest, ""
        return ["esc", *(_name(char) for char in rest[1:])] if rest else []


def _name(char: str) -> str:
    if char in _CONTROLS:
        return _CONTROLS[char]
    return f"ctrl-{chr(ord(char) + 96)}" if char < " " else char


async def read_keys(fd: int, decoder: KeyDecoder) -> list[str]:
    """Wait for keys and return those that arrived together. Raises EOFError when the terminal is gone."""
    while True:
        await anyio.wait_readable(fd)
        if os.isatty(fd) and not is_in_foreground(fd):
            await anyio.sleep(IN_BACKGROUND_SECONDS)
            continue
        keys = decoder.feed(_read(fd))
        if decoder.is_unfinished:
            with anyio.move_on_after(ESCAPE_SILENCE_SECONDS) as silence:
                await anyio.wait_readable(fd)
            if silence.cancelled_caught:
                keys += decoder.flush()
        if keys:
            return keys


def _read(fd: int) -> bytes:
    try:
        data = os.read(fd, 4096)
    except OSError as error:  # EIO: the terminal was closed, or we are in the background
        raise EOFError(str(error)) from None
    if not data:
        raise EOFError("end of input")
    return data


def is_in_foreground(fd: int) -> bool:
    """Whether this process may change the terminal's mode without being stopped by the kernel."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


class KeyMode:
    """The terminal's mode while single keys are read."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._saved: list[object] | None = None

    def enter(self) -> None:
        if self._saved is None:
            self._saved = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd, termios.TCSADRAIN)
        _tell(_BRACKETS_ON)

    def leave(self) -> None:
        """Give the terminal its old mode back. Idempotent, and harmless when the terminal is gone."""
        saved, self._saved = self._saved, None
        if saved is not None:
            _tell(_BRACKETS_OFF)
            try:
                termios.tcsetattr(self._fd, termios.TCSADRAIN, saved)  # type: ignore[arg-type] # tcgetattr's own list
            except termios.error:
                return

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Read single keys inside the block, and restore the terminal on every exit from it."""
        ending = [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
        with _in_place_of_default(ending, self._end):
            self.enter()
            try:
                yield
            finally:
                self.leave()

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Restore the terminal, then raise the signal again with its default action."""
        self.leave()
        sys.stderr.write("\x1b[?25h")
        sys.stderr.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _tell(sequence: bytes) -> None:
    """Write to the terminal without a buffer; do nothing if the terminal is gone."""
    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), sequence)


@contextmanager
def _in_place_of_default(numbers: list[signal.Signals], act: "signal._HANDLER") -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    replaced = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, act)
    try:
        yield
    finally:
        for number in replaced:
            if signal.getsignal(number) == act:
                signal.signal(number, signal.SIG_DFL)
