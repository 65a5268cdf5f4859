"""A daemon on a chat platform, whose process is killed at one of its commits.

python platform_life.py                     reads jobs, one a line, and forks a process for each
{"folder": ..., "platform": ..., "url": ..., "backend": ..., "at": 3 | "before CardPosted" | null, "routes": [...]}
{"port": 4711, "pid": 7}  {"exit": -9}      what it writes, one a line

`at`: the point of dying.py at which it dies. `routes`: tables [[routes]] of a configuration.
"""

import json
import os
import signal
import sys
from pathlib import Path

import fake_discord
import fake_slack
import msgspec
from dying import DyingStore

from supervisor import Context, agent, tool
from supervisor.channels import Route
from supervisor.channels.discord import Discord
from supervisor.channels.slack import Slack
from supervisor.channels.telegram import Telegram
from supervisor.core.approvals.people import People, Person, TokenHash, hash_token
from supervisor.wiring.daemon import Daemon, Settings
from supervisor.wiring.stopping import run_until_stopped

TOKEN = "sup_token"
ANA = "U-ANA"


@tool
async def deploy(target: str) -> str:
    with Path(os.environ["LIFE"], "ran").open("a") as file:
        file.write("ran\n")
    return target


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def writer(ctx: Context, text: str) -> None:
    ctx.stream("Half a sen")
    await ctx.receive()
    await ctx.send("The whole sentence.")


class Dying(Daemon):
    """A daemon that dies around a commit of its store."""

    at = None

    def _make_store(self):
        return DyingStore(self._settings.store.parent, self.at)


def serve(job):
    os.environ["LIFE"] = job["folder"]
    Dying.at = job["at"]
    tokens = (TokenHash(hash_token(TOKEN)),)
    identities = {job["platform"]: job.get("identity", ANA)}
    people = People([Person(name="ana", roles=("operator",), tokens=tokens, identities=identities)])
    store = Path(job["folder"], "state.db")
    channels = [channel(job, people)]
    routes = [msgspec.convert(route, Route) for route in job.get("routes", ())]
    agents = {"deployer": deployer}
    daemon = Dying(Settings(store=store, people=people, agents=agents, port=0, channels=channels, routes=routes))
    print(json.dumps({"port": daemon.port, "pid": os.getpid()}), flush=True)
    run_until_stopped(daemon.run, job["backend"])


def channel(job, people):
    """Return the platform's channel; `talks`: people talk with the writer there."""
    talks = {"agent": writer if job.get("talks") else None}
    if job["platform"] == "slack":
        return Slack(
            token=fake_slack.TOKEN,
            signing_secret=fake_slack.SECRET,
            conversation="C1",
            people=people,
            base_url=job["url"],
            **talks,
        )
    if job["platform"] == "telegram":
        return Telegram(token="4242:an-abc_secret", conversation=-1001234, people=people, base_url=job["url"], **talks)
    return Discord(
        token=fake_discord.TOKEN,
        application=fake_discord.APPLICATION,
        public_key=fake_discord.PUBLIC_KEY,
        conversation="77",
        people=people,
        base_url=job["url"],
        **talks,
    )


def main():
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            job, code = json.loads(line), 70
            try:
                with Path(job["folder"], "log").open("a") as log:
                    os.dup2(log.fileno(), 2)
                signal.alarm(120)
                serve(job)
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        print(json.dumps({"exit": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}), flush=True)


if __name__ == "__main__":
    main()
