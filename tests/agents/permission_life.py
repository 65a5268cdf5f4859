"""A process that serves permission requests, and dies before or after its n-th commit. Run as a program:

    python permission_life.py '{"folder": ..., "backend": ..., "clients": true, "when": "after", "n": 3}'

Its client asks for two calls, and notes each answer in the file `answers` as soon as it is written. A person in the
same process approves `ls`, denies all else, and notes each approval that she sees in the file `shown`. The process ends
when both calls are answered, or, without a client, when all that was pending is decided.
"""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import anyio

from supervisor import Approve, Deny, SqliteStore, open_supervisor
from supervisor.agents.claude.permissions import Client, Permissions

CALLS = ("ls", "rm")


class Dying(SqliteStore):
    def __init__(self, folder, when, n):
        super().__init__(f"{folder}/state.db")
        self.doom, self.count = (when, n), 0

    def commit(self):
        self.count += 1
        if self.doom == ("before", self.count):
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit()
        if self.doom == ("after", self.count):
            os.kill(os.getpid(), signal.SIGKILL)


class Left(Exception):
    pass


def note(folder, name, text):
    with (Path(folder) / name).open("a") as file:
        file.write(f"{text}\n")


async def ask(permissions, folder, command):
    client = Client()
    answer = await permissions.ask("Bash", {"command": command}, client)
    note(folder, "answers", f"{command} {type(answer).__name__}")
    client.written()


async def decide(supervisor, folder):
    async with supervisor.watch_approvals() as watch:
        async for approval in watch:
            note(folder, "shown", approval.id)
            is_ls = approval.arguments["command"] == "ls"
            await supervisor.decide(approval.id, Approve(by="ana") if is_ls else Deny(by="ana"))


async def main(folder, clients, when="after", n=0):
    store = Dying(folder, when, n)
    try:
        async with open_supervisor(store) as supervisor:
            permissions = Permissions()
            await supervisor.start(permissions.agent, session="s")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(decide, supervisor, folder)
                async with anyio.create_task_group() as asking:
                    for command in CALLS if clients else ():
                        asking.start_soon(ask, permissions, folder, command)
                while await supervisor.find_approvals():
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
            raise Left
    except Left:
        note(folder, "commits", store.count)


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    backend = job.pop("backend")
    anyio.run(partial(main, **job), backend=backend)
