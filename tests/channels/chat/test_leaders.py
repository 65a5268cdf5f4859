"""Two daemons share a store on PostgreSQL and a bot of Telegram: one polls; it is killed or paused, and the other does.

The platform is the fake of this folder, which refuses a second poller as Telegram does (409).
"""

import os
import signal
import subprocess
import sys
import time

import pytest
from fake_telegram import TOKEN, FakeTelegram, codes, serving

from supervisor.store.postgres.store import PostgresStore

ME = 123456789
CONFIGURATION = """
store = "{store}"
[server]
port = 0
[agents.deployer]
import = "agents.py:deployer"
[people.ana]
roles = ["operator"]
identities = {{ telegram = "{me}" }}
[channels.telegram]
conversation = {me}
agent = "deployer"
base_url = "{url}"
"""
AGENTS = """
from supervisor import Context, agent, tool

@tool
async def deploy(target: str) -> str:
    with open("{ran}", "a") as file:
        file.write(target)
    return target

@agent
async def deployer(ctx: Context, text: str) -> str:
    return (await ctx.call(deploy, text)).content
"""


@pytest.fixture
def daemons(postgres, tmp_path):
    """Start a daemon on a machine of its own; return its process."""
    begun = []

    def start(fake, name):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "agents.py").write_text(AGENTS.format(ran=tmp_path / "ran"))
        (folder / "supervisor.toml").write_text(CONFIGURATION.format(store=postgres, url=fake.url, me=ME))
        environment = os.environ | {"TELEGRAM_BOT_TOKEN": TOKEN, "XDG_STATE_HOME": str(folder)}
        command = [sys.executable, "-m", "supervisor", "serve", "--config", "supervisor.toml"]
        with (folder / "log").open("wb") as log:
            begun.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log))
        return begun[-1]

    yield start
    for each in begun:
        each.send_signal(signal.SIGCONT)
        each.kill()
        each.wait()


@pytest.fixture
def opened(postgres):
    store = PostgresStore(postgres)
    store.open()
    yield store
    store.close()


def leads(store, process):
    return any(owner.pid == process.pid for owner in store.get_owners(["~channel:telegram"]).values())


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_the_next_daemon_takes_over_a_bot_and_its_cards(daemons, opened, tmp_path, way):
    """At most one more card is shown, both are retired, and the call runs once. A paused leader ends when it goes on:
    the press that waited for it does not count twice."""
    with serving(FakeTelegram()) as fake:
        first = daemons(fake, "one")
        until(lambda: leads(opened, first))
        second = daemons(fake, "two")
        fake.say("web-1", ME, chat=ME)
        until(lambda: [card for card in fake.cards(ME) if codes(card)])
        first.send_signal(way)
        until(lambda: leads(opened, second))
        card = until(lambda: next((card for card in reversed(fake.cards(ME)) if codes(card)), None))
        assert len(fake.cards(ME)) <= 2
        fake.press(card, "approve.0", ME)
        until(lambda: (tmp_path / "ran").exists())
        first.send_signal(signal.SIGCONT)
        assert first.wait(30) != 0
        until(lambda: not any(codes(card) for card in fake.cards(ME)))
        until(lambda: not opened.find_open_in([row.id for row in opened.find_sessions()]))
    assert len(fake.cards(ME)) <= 2
    assert (tmp_path / "ran").read_text() == "web-1"
