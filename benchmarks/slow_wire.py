"""A wire of so many seconds each way between a program and a server: `python -m benchmarks.slow_wire PORT SECONDS`.

It prints its own port. A thread for each direction of a connection waits before it passes a piece on, which a clock of
an event loop cannot do for less than a millisecond.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress


def _pass_on(source: socket.socket, target: socket.socket, seconds: float) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 20):
            time.sleep(seconds)
            target.sendall(piece)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def main(port: int, seconds: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            ours, _ = listener.accept()
            theirs = socket.create_connection(("127.0.0.1", port))
            for each in (ours, theirs):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, target in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=_pass_on, args=(source, target, seconds), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
