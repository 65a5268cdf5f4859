"""Daemons of one store on PostgreSQL are one server to people: real processes, each with the folder of its machine."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from postgres_server import running, text_of

from supervisor.channels.web.revocations import Revocation, Revocations
from supervisor.channels.web.shown import Look, Shown
from supervisor.core.errors import InvalidInput
from supervisor.store.postgres.store import PostgresStore
from supervisor.wiring.config import Configuration, read_configuration

TOKEN = "a-token-that-is-long-enough-for-tests"
PASSWORD = "sesame-of-the-store"
ENCODED = PASSWORD.replace("s", "%73")
AGENTS = """
from supervisor import Context, agent, tool
from supervisor.tools import shell

@tool(policy="ask")
async def deploy(target: str) -> str:
    return target

@agent
async def asking(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind

@tool(policy="ask")
async def once() -> None:
    with open("effects", "a") as file:
        file.write("once ")

@agent
async def waiting(ctx: Context) -> str:
    return (await ctx.call(once)).kind

@agent
async def running(ctx: Context) -> str:
    return (await ctx.call(shell, "touch begun; until [ -e go ]; do sleep 0.05; done; echo -n 'ran ' >> effects")).kind

@agent
async def looking(ctx: Context) -> str:
    return (await ctx.call(shell, "env")).content

@agent
async def working(ctx: Context) -> str:
    return (await ctx.call(shell, "sleep 1000", background=True)).details["job"]
"""


class Machine:
    """A folder and an environment; the processes in them see no other machine's files."""

    def __init__(self, folder, url):
        self.folder = folder
        folder.mkdir()
        (folder / "agents.py").write_text(AGENTS)
        rules = 'rules = [{kind = "allow", tool = "shell"}]\n'
        (folder / "named.toml").write_text(f'store = "{url}"\n{rules}')
        (folder / "rules.toml").write_text(rules)
        ours = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
        self.environment = {
            **ours, "SUPERVISOR_STORE": url, "PGPASSWORD": PASSWORD, "XDG_STATE_HOME": str(folder / "state"),
            "SUPERVISOR_TOKEN": TOKEN,
        }  # fmt: skip

    def begin(self, *words, **options):
        command = [sys.executable, "-m", "supervisor", *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, text=True, **options
        )

    def run(self, *words):
        ran = self.begin(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = ran.communicate(timeout=60)
        assert ran.returncode in (0, 3), err
        return out

    def serve(self, *words):
        self.log = self.folder / "log"
        with self.log.open("w") as log:
            self.process = self.begin("serve", "agents.py", "--port", "0", *words, stderr=log)
        found = until(lambda: re.search(r"on (http://\S+)", self.log.read_text()) or self.process.poll() is not None)
        assert not isinstance(found, bool), self.log.read_text()
        self.url = found[1]

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=60, **options)

    def tokened(self):
        return self.client(headers={"authorization": f"Bearer {TOKEN}"})


def until(condition, seconds=30.0):
    """Ask again until there is an answer: what is waited for happens in another process, which sends no event."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def machines(server, tmp_path_factory):
    """Two machines, each with a daemon of the store: one finds it by its configuration, the other by a variable."""
    url, folder = f"{server}?schema=served", tmp_path_factory.mktemp("machines")
    both = [Machine(folder / name, url) for name in ("one", "two")]
    both[1].environment["SUPERVISOR_STORE"] = url.replace("@", f":{ENCODED}@")
    for each, config in zip(both, ("named.toml", "rules.toml"), strict=True):
        each.serve("--config", config)
    yield both
    for each in both:
        each.process.kill()
        each.process.wait()


def test_a_person_is_one_person_at_every_daemon_of_the_store(machines):
    """A login made at one counts at the other and ends at both; so does a look, which a bare yes needs (A12)."""
    one, two = machines
    with one.tokened() as asks, two.tokened() as decides, one.client() as here, two.client() as there:
        started = {"agent": "asking", "input": "prod", "session": "people"}
        asks.post("/api/sessions", json=started).raise_for_status()
        until(lambda: asks.get("/api/sessions/people").json()["pending_approvals"])
        (pending,) = asks.get("/api/approvals").json()["items"]
        assert asks.get(f"/api/approvals/{pending['id']}").status_code == 200
        said = decides.post("/api/sessions/people/messages", json={"text": "yes"})
        assert said.json()["kind"] == "decided", said.text
        until(lambda: decides.get("/api/sessions/people").json()["outcome"])

        here.post("/login", data={"token": TOKEN, "next": "/"}, headers={"origin": one.url})
        (name, value), *_ = here.cookies.items()
        there.cookies.set(name.replace(one.url.rpartition(":")[2], two.url.rpartition(":")[2]), value)
        assert there.get("/api/sessions").status_code == 200
        assert here.post("/logout", headers={"origin": one.url}).status_code == 303
        assert there.get("/api/sessions").status_code == 401


def test_a_command_next_to_the_store_starts_what_the_daemon_of_its_machine_offers(machines):
    """No variable by which the store is reached gets to a command of an agent; a job's log is in the user's folder."""
    one, _ = machines
    found = json.loads(one.run("start", "looking", "--json"))["outcome"]["value"]
    assert "XDG_STATE_HOME" in found
    assert not re.search(rf"^PG|SUPERVISOR_STORE|{PASSWORD}", found, re.MULTILINE)
    job = json.loads(one.run("start", "working", "--json"))["outcome"]["value"]
    assert job
    assert list(one.folder.parent.glob(f"*/state/subagent-supervisor/stores/*.jobs/{job}*"))


def test_commands_take_the_url_from_the_variable_and_the_configuration(machines):
    """Also those about a daemon and its configuration; none shows a password."""
    _, two = machines
    two.run("rules", "deny", "erase")
    shown = "".join(
        two.run(*words)
        for words in (
            ["rules"],
            ["schedules"],
            ["top", "--once", "--json"],
            ["token", "list", "--config", "named.toml"],
        )
    )
    assert "erase" in shown
    assert PASSWORD not in shown + two.log.read_text() + Path(f"/proc/{two.process.pid}/cmdline").read_text()


def test_a_daemon_whose_server_is_away_says_so_and_goes_on_when_it_is_back(tmp_path):
    """An approval waits and a call runs meanwhile. What the call did is kept, and each runs once."""
    with running() as server:
        daemon = Machine(tmp_path / "one", f"{server.url}?schema=away")
        daemon.serve("--config", "named.toml")
        with daemon.tokened() as client, daemon.tokened() as listener:
            for name in ("waiting", "running"):
                client.post("/api/sessions", json={"agent": name, "session": name}).raise_for_status()
            until(lambda: (daemon.folder / "begun").exists())
            (asked,) = until(lambda: client.get("/api/approvals").json()["items"])
            with listener.stream("GET", "/api/events") as stream:
                told = stream.iter_lines()
                assert any(asked["id"] in line for line in told)
                server.stop("fast")
                begun = time.monotonic()
                until(lambda: client.get("/ready").status_code == 503)
                assert time.monotonic() < begun + 1.5  # half a second is for a busy machine
                refused = client.get("/api/approvals")
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                assert client.get("/health").status_code == client.get("/login").status_code == 200
                (daemon.folder / "go").touch()
                effects = daemon.folder / "effects"
                until(effects.exists)
                server.start()
                until(lambda: client.get("/ready").status_code == 200)
                outcome = until(lambda: client.get("/api/sessions/running").json()["outcome"])
                assert outcome["value"] == "ok"
                decided = client.post(f"/api/approvals/{asked['id']}/decision", json={"decision": "approve"})
                assert decided.json()["kind"] == "accepted"
                until(lambda: client.get("/api/sessions/waiting").json()["outcome"])
                assert effects.read_text() == "ran once "
                assert any('"approved"' in line for line in told)
        daemon.process.terminate()
        assert daemon.process.wait(30) == 143


def test_nothing_that_people_and_programs_read_has_the_password_of_the_store(machines, server):
    """The URL that the variable of a machine has contains it, encoded, and so does PGPASSWORD."""
    _, two = machines
    with two.tokened() as client:
        client.post("/api/sessions", json={"agent": "asking", "input": "prod", "session": "read"}).raise_for_status()
        pages = ("/metrics", "/ready", "/login", "/api", "/api/owners", "/api/sessions/none", "/api/audit", "/none")
        said = {page: client.get(page).text for page in pages}
    told = [["check", "rules.toml"], ["sessions", "--json"], ["show", "read"], ["approve", "none"], ["check-replay"]]
    for words in told:
        ran = two.begin(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said[words[0]] = ran.communicate(timeout=60)[0]
    said |= {"log": two.log.read_text(), "store": text_of(f"{server}?schema=served")}
    said["ps"] = Path(f"/proc/{two.process.pid}/cmdline").read_text()
    assert [name for name, text in said.items() if PASSWORD in text or ENCODED in text or not text] == []


@pytest.fixture
def both(postgres):
    """Two processes, as far as the server can tell."""
    with closing(PostgresStore(postgres)) as one, closing(PostgresStore(postgres)) as two:
        one.open(), two.open()
        yield one, two


def test_a_revocation_and_a_look_at_one_daemon_count_at_all(both):
    """A line that a version cannot read keeps every request refused; a look that no longer waits is forgotten."""
    one, two = both
    assert one.secret() == two.secret() != b""
    here, there = Revocations(one.book("revoked")), Revocations(two.book("revoked"))
    here.add(Revocation(token="sha256:1", at=datetime.now(UTC), by="ada"))
    assert "sha256:1" in there
    assert "sha256:2" not in there
    shown, elsewhere = Shown(one.book("shown")), Shown(two.book("shown"))
    shown._append([Look("ada", "a-1")])
    assert set(elsewhere.to("ada")) == {"a-1"}
    one.book("revoked").add([b"{"])
    for _ in range(2):
        with pytest.raises(Exception, match="unreadable"):
            there.refresh()


def test_no_url_with_a_password_is_taken_from_where_others_read_it(tmp_path):
    """An option is in the list of processes, and a configuration in a repository."""
    for url in ("postgresql://ada:sesame@h/db", "postgresql://h/db?password=x", "postgresql://h/db?sslpassword=x"):
        file = tmp_path / "supervisor.toml"
        file.write_text(f'store = "{url}"\n')
        with pytest.raises(InvalidInput, match="PGPASSFILE") as refused:
            read_configuration(file)
        assert "sesame" not in str(refused.value)
    assert Configuration(store="postgresql://h/db?schema=a&sslrootcert=/a%20b").postgres is not None
