"""A stand-in for an MCP client: it starts a server, and carries lines between the test and it.

    python relay.py COMMAND...

So the server's parent is a program, whose shell decides nothing, and the test's own commands are a person's. The relay
ends as the server does.
"""

import os
import sys
import threading

from permission_client import fork


def carry(reads, writes):
    while chunk := os.read(reads, 65536):
        os.write(writes, chunk)
    os.close(writes)


if __name__ == "__main__":
    pid, said, told = fork(sys.argv[1:])
    threading.Thread(target=carry, args=[0, told.fileno()], daemon=True).start()
    carry(said.fileno(), os.dup(1))
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) % 256)
