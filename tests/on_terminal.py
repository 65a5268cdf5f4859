"""A program on a terminal of its own: a real pty, real keys, a real terminal mode."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import preloaded

PATIENCE = 60.0  # seconds until a test gives up: a busy machine is no failure


class PtyProgram:
    """A process whose stdin and stderr are a terminal of 80 by 40; its stdout is a pipe, unless `is_whole`."""

    def __init__(self, arguments: list[str], *, is_whole: bool = False, cwd: Path | None = None, **env: str) -> None:
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        self.mode = termios.tcgetattr(self.slave)
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("EDITOR", "VISUAL", "SUPERVISOR_CALL", "LINES", "COLUMNS")  # the terminal says its size
        }
        self.process = preloaded.Popen(
            [sys.executable, *arguments],
            stdin=self.slave,
            stderr=self.slave,
            stdout=self.slave if is_whole else subprocess.PIPE,
            cwd=cwd,
            env={**kept, "TERM": "xterm", **env},
            start_new_session=True,
            is_on_terminal=True,
        )
        self.raw = b""
        self._mark = 0

    @property
    def text(self) -> str:
        """What was written to the terminal, without the sequences that move and colour."""
        return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", self.raw.decode(errors="replace"))

    def see(self, text: str) -> None:
        """Read until the terminal gets this text, after the text that was seen before."""
        end = time.monotonic() + PATIENCE
        while (found := self.text.find(text, self._mark)) < 0:
            assert self._read(end - time.monotonic()), (
                f"{text!r} did not come; the terminal has\n{self.text[self._mark :]}"
            )
        self._mark = found + len(text)

    def press(self, keys: str) -> None:
        """Type keys, all of them at once."""
        os.write(self._master, keys.encode())

    def press_to_the_end(self, key: str) -> tuple[int, bytes]:
        """Press a key again and again, as often as it takes until the program ends."""
        give_up_at = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < give_up_at, f"it did not end; the terminal has\n{self.text}"
            self.press(key)
            self._read(0.2)
        return self.end()

    def end(self, number: int | None = None) -> tuple[int, bytes]:
        """Wait for the program's end, perhaps by a signal; returns its code and its stdout."""
        if number is not None:
            self.process.send_signal(number)
        give_up_at = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < give_up_at, f"it did not end; the terminal has\n{self.text}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode, self.process.stdout.read() if self.process.stdout else b""

    def _read(self, timeout: float) -> bool:
        if not select.select([self._master], [], [], max(0.0, timeout))[0]:
            return False
        try:
            self.raw += os.read(self._master, 65536)
        except OSError:  # no process has it open any more
            return False
        return True

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        os.close(self._master)
        os.close(self.slave)
