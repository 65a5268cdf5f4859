"""A daemon is killed at every stage of request, post, click and edit; the next one goes on, and the old card works."""

import itertools
import json
import os
import select
import signal
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

import fake_discord
import fake_slack
import preloaded
import pytest
from platform_life import ANA, TOKEN

COMMITS = 9  # of a daemon that asks once; the last two may be one
AT_PLATFORM = {"slack": ("chat.postMessage", "chat.update"), "discord": ("POST", "PATCH")}
PLATFORMS = {
    "slack": (fake_slack.FakeSlack, fake_slack.serving),
    "discord": (fake_discord.FakeDiscord, fake_discord.serving),
}


def deaths():
    """Every stage: around each commit, and around each thing that the platform is asked to do."""
    for platform, backend in itertools.product(PLATFORMS, ("asyncio", "trio")):
        for n, when in itertools.product(range(1, COMMITS + 1), ("before", "after")):
            yield platform, backend, when, n
        for method, when in itertools.product(AT_PLATFORM[platform], ("before", "after")):
            yield platform, backend, when, method


ALL = list(deaths())
SAMPLE = [death for place, death in enumerate(ALL) if place % 9 == 0 or (isinstance(death[3], str) and place % 2)]


@pytest.fixture(scope="module")
def nursery():
    """Where daemons come from: a process that has imported everything."""
    script = Path(__file__).with_name("platform_life.py")
    env = os.environ | {"PYTHONPATH": str(Path(preloaded.__file__).parent)}
    with preloaded.Popen([sys.executable, script], stdin=-1, stdout=-1, bufsize=0, env=env) as process:
        yield process
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize("death", SAMPLE, ids=str)
def test_an_old_card_works_after_a_death(nursery, tmp_path, death):
    """R2, R3, A11: one card, whose buttons go; an approved call ran once, or is reported as lost (T2)."""
    story(nursery, tmp_path, *death)


@pytest.mark.soak
@pytest.mark.parametrize("death", ALL, ids=str)
def test_an_old_card_works_after_every_death(nursery, tmp_path, death):
    """The same, at each stage there is."""
    story(nursery, tmp_path, *death)


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "backend"), [("slack", "asyncio"), ("discord", "trio")])
def test_an_unrecorded_card_loses_its_buttons_after_a_decision_elsewhere(nursery, tmp_path, platform, backend):
    """R3: the daemon dies after the platform took the card; the next daemon retires it without a press."""
    make, serving = PLATFORMS[platform]
    with serving(make()) as fake:
        daemons = Daemons(nursery, tmp_path, platform, backend, fake)
        daemons.begin("after", AT_PLATFORM[platform][0])
        try:
            daemons.until(lambda: daemons.ask("sessions", agent="deployer", input="x", session="s") or cards(fake))
            daemons.until_dead()
            assert [has_buttons(each) for each in cards(fake)] == [True]
            decide_elsewhere(tmp_path / "state.db")
            daemons.begin()
            daemons.until(lambda: not any(has_buttons(each) for each in cards(fake)))
            daemons.until(lambda: (daemons.ask("sessions/s") or {}).get("outcome"))
        finally:
            daemons.end()
    assert (len(cards(fake)), (tmp_path / "ran").read_text()) == (1, "ran\n")


def decide_elsewhere(store):
    """By a process that has not declared the agent, and so does not run it (R2)."""
    command = [sys.executable, "-m", "supervisor"]
    listed = preloaded.run([*command, "approvals", "--store", store, "--json"], capture_output=True)
    (approval,) = json.loads(listed.stdout)
    assert approval["shown"] == []
    approved = preloaded.run([*command, "approve", approval["id"], "--store", store], capture_output=True)
    assert approved.returncode == 0, approved.stderr


def story(nursery, folder, platform, backend, when, where):
    make, serving = PLATFORMS[platform]
    with serving(make()) as fake:
        daemons = Daemons(nursery, folder, platform, backend, fake)
        daemons.begin(when, where)
        try:
            daemons.until(lambda: daemons.ask("sessions", agent="deployer", input="x", session="s"))
            card = daemons.until(lambda: next(iter(cards(fake)), None))
            press = fake.press(card, "approve.0", ANA)
            daemons.until(lambda: daemons.press(f"/channels/{platform}/{PATHS[platform]}", *press))
            daemons.until(lambda: (daemons.ask("sessions/s") or {}).get("outcome"))
            daemons.until(lambda: not any(has_buttons(each) for each in cards(fake)))
            daemons.until(lambda: platform not in daemons.ask("approvals?status=all")["items"][0]["shown"])
            outcome = daemons.until(lambda: daemons.ask("sessions/s"))["outcome"]
        finally:
            daemons.end()
        assert daemons.deaths == 1 or where == COMMITS
        assert len(cards(fake)) == 1
        ran = len((folder / "ran").read_text().splitlines()) if (folder / "ran").exists() else 0
        assert (outcome["value"], ran) in (("ok", 1), ("interrupted", 0), ("interrupted", 1)), (
            folder / "log"
        ).read_text()


PATHS = {"slack": "requests", "discord": "interactions"}


def cards(fake):
    messages = fake.messages.values() if isinstance(fake, fake_discord.FakeDiscord) else fake.messages.get("C1", ())
    return list(messages)


def has_buttons(message):
    return bool(message.get("components")) or any(block["type"] == "actions" for block in message.get("blocks", ()))


class Daemons:
    """One daemon after another on one store; the first is doomed."""

    def __init__(self, nursery, folder, platform, backend, fake, **more):
        self._nursery, self._fake, self._folder = nursery, fake, folder
        self.deaths = 0
        self._job = {"folder": str(folder), "platform": platform, "backend": backend, "url": fake.url, **more}

    def begin(self, when="", where=None, at=None):
        """`where`: the number of a commit, or what the platform is asked; `at`: a point of dying.py."""
        at = 2 * where - (when == "before") if isinstance(where, int) else at
        self._nursery.stdin.write(json.dumps(self._job | {"at": at}).encode() + b"\n")
        self._told = self._listen()
        if isinstance(where, str):
            self._fake.taken = lambda method, then: self._kill() if (method, then) == (where, when) else None

    def _listen(self):
        return json.loads(self._nursery.stdout.readline())

    def _kill(self):
        """Kill it while the platform carries out a request, so that no process gets the answer."""
        self._fake.taken = lambda method, then: None
        os.kill(self._told["pid"], signal.SIGKILL)
        while Path(f"/proc/{self._told['pid']}").exists():
            time.sleep(0.005)

    def until_dead(self):
        assert self._listen()["exit"] == -signal.SIGKILL, self.log()

    def until(self, found, seconds=60):
        """Return what there is once there is something; a daemon that has died has a successor."""
        end = time.monotonic() + seconds
        while True:
            if select.select([self._nursery.stdout], [], [], 0)[0]:
                assert self._listen()["exit"] == -signal.SIGKILL, self.log()
                self.deaths += 1
                self.begin()
            try:
                if it := found():
                    return it
            except (OSError, HTTPException):
                pass  # it has died, or is not there yet
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)

    def end(self):
        self._fake.taken = lambda method, then: None
        if not select.select([self._nursery.stdout], [], [], 0)[0]:
            os.kill(self._told["pid"], signal.SIGKILL)
        self._listen()

    def log(self):
        return (self._folder / "log").read_text()[-3000:]

    def ask(self, path, **body):
        """Ask its API as an operator; None for what it refuses."""
        sent = json.dumps(body).encode() if body else None
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        return self._request(f"/api/{path}", headers, sent)

    def press(self, path, headers, body):
        """Deliver the platform's request for a press; return whether nothing waits any more."""
        self._request(path, headers, body)
        return (self.ask("sessions/s") or {}).get("status", "waiting_approval") != "waiting_approval"

    def _request(self, path, headers, body):
        asked = urllib.request.Request(f"http://127.0.0.1:{self._told['port']}{path}", body, headers)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return json.loads(answer.read() or b"true")
        except urllib.error.HTTPError:
            return None
