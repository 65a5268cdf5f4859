"""supervisor.toml: errors name their key; a correct file decides who may do what."""

import errno
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import named_agents
import preloaded
import pytest
from daemons import AGENTS, TOKEN, until

from supervisor import MemoryStore, open_supervisor
from supervisor.cli.configuring import EXAMPLE, check
from supervisor.cli.serving import read_token
from supervisor.core.approvals.people import hash_token
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.errors import InvalidInput, StoreUnreadable
from supervisor.system.loading import SCHEMES, locate
from supervisor.wiring.config import read_configuration
from supervisor.wiring.daemon import configured_agents, settle, store_secret

RIGHT = f"""
store = "kept.db"
[server]
port = 0
[agents.notes]
import = "{AGENTS}:noting"
inactivity_timeout = 5.0
approvers = ["cleo"]
rules = [{{ kind = "deny", tool = "shell", pattern = "rm" }}]
[[rules]]
kind = "ask"
tool = "deploy"
approvers = ["ana"]
[people.ana]
roles = ["approver"]
tokens = ["{hash_token("ana's token")}"]
[people.cleo]
roles = ["approver"]
tokens = [{{ hash = "{hash_token("cleo's token")}", expires_at = 2100-01-01T00:00:00Z }}]
identities = {{ slack = "U1" }}
"""


def write(tmp_path, text: str):
    file = tmp_path / "supervisor.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("store = 'https://inbox.example'", "store"),
        ("store = 'memory:'", "store"),
        ("[server]\nport = 'x'", "server.port"),
        ("[server]\nport = 99999", "server.port"),
        ("[server]\nprt = 1", "server"),
        ("[server]\nmax_streams = 0", "server.max_streams"),
        ("[server]\nhosts = ['approvals.internal:8443']", "server.hosts"),
        ("[server]\nhosts = ['https://approvals.internal']", "server.hosts"),
        ("sto re = 1", "line 1"),
        ("[server]\nhost = '0.0.0.0'", "server.host"),
        ("[server]\npublic_url = 'example.org'", "server.public_url"),
        ("[[rules]]\nkind = 'maybe'\ntool = 'x'", "rules[0].kind"),
        ("[[rules]]\nkind = 'allow'\ntool = 'shell'\npattern = 'python *'", "rules[0]"),
        ("[[rules]]\nkind = 'ask'\ntool = 'x'\napprovers = ['nobody']", "rules[0].approvers"),
        ("[[rules]]\nkind = 'deny'\ntool = 'x'\napprovers = ['a']\n[people.a]", "rules[0].approvers"),
        ("[agents.x]\nimport = 'x:y'\napprovers = ['nobody']", "agents.x.approvers"),
        ("[agents.x]\nimport = 'x:y'\napprovers = ['a']\nquorum = 2\n[people.a]", "agents.x.quorum"),
        ("[[rules]]\nkind = 'ask'\ntool = 'x'\napprovers = ['a', 'a']\nquorum = 2\n[people.a]", "rules[0].quorum"),
        ("[[rules]]\nkind = 'ask'\ntool = 'x'\nquorum = 2", "rules[0].quorum"),
        ("[[rules]]\nkind = 'ask'\ntool = 'x'\nquorum = 0", "rules[0].quorum"),
        ("[agents.x]\nimport = 'x:y'\npassivate_after = 'soon'", "agents.x.passivate_after"),
        ("[budget]\nusd = -1", "budget"),
        ("[budget]\ncents = 1", "budget"),
        ("[budget]\nrequests = 1.5", "budget.requests"),
        ("[budget]\non_exhausted = 'stop'", "budget.on_exhausted"),
        ("[agents.x]\nimport = 'x:y'\nbudget = 5", "agents.x.budget"),
        ("[agents.x]\nimport = 'x:y'\n[agents.x.budget]\ncalls = -1", "agents.x.budget"),
        ("[[rules]]\nkind = 'allow'\ntool = 'supervisor.budget'", "rules[0]"),
        ("[agents.x]", "agents.x"),
        ("[agents.x]\nimport = 'x:y'\nacp = ['coder']", "agents.x"),
        ("[agents.x]\nimport = 'acp:coder'", "agents.x.import"),
        ("[agents.x]\nimport = 'x:y'\ncwd = '/srv'", "agents.x.cwd"),
        ("[agents.x]\nimport = 'x:y'\nenv = { A = 'b' }", "agents.x.env"),
        ("[agents.x]\nacp = []", "agents.x.acp"),
        ("[agents.x]\nacp = [' ']", "agents.x.acp"),
        ("[agents.x]\nacp = 'coder acp'", "agents.x.acp"),
        ("[agents.x]\nacp = ['coder']\nenv = { A = 1 }", "agents.x.env"),
        ("[agents.x]\nacp = ['coder']\ncommand = 'x'", "agents.x"),
        ("[people.a]\ntokens = ['secret']", "people.a.tokens[0]"),
        ("[people.a]\nroles = ['king']", "people.a.roles[0]"),
        (f"[people.a]\ntokens = ['{hash_token('x')}']\n[people.b]\ntokens = ['{hash_token('x')}']", "people.b"),
        ("[people.a]\nidentities = {slack = 'U1'}\n[people.b]\nidentities = {slack = 'U1'}", "people.b"),
        ("[channels.Fax]", "channels.Fax"),
        ("[channels.web]", "channels.web"),
        ("[channels.fax]\nkind = 1", "channels.fax.kind"),
        ("[channels.fax]\nkind = 'slack'\nimport = 'fax:Fax'", "channels.fax"),
        ("passivate_after = -1", "passivate_after"),
        ("remind_after = 0", "remind_after"),
        ("escalate_after = 60", "escalate_to"),
        ("trace_contents = true", "trace_contents"),
        ("escalate_after = 60\nescalate_to = ['eve']", "escalate_to: there is no [people.eve]"),
    ],
)
def test_an_error_names_its_key(tmp_path, text, key):
    """The file, and the key or the line."""
    with pytest.raises(InvalidInput) as raised:
        read_configuration(write(tmp_path, text))
    assert "supervisor.toml" in str(raised.value)
    assert key in str(raised.value)


def test_a_valid_configuration_becomes_people_rules_and_reservations(tmp_path):
    """Paths count from the file's folder; approvers reserve decisions."""
    configuration = read_configuration(write(tmp_path, RIGHT))
    assert configuration.store_file == tmp_path / "kept.db"
    assert configuration.agents["notes"].limits == {"inactivity_timeout": 5.0}
    assert [(each.approvers, each.agent) for each in configuration.reservations()] == [
        (("ana",), None),
        (("cleo",), "notes"),
    ]
    ana, cleo = configuration.persons()
    assert (ana.is_operator, cleo.identities) == (False, {"slack": "U1"})
    assert cleo.tokens[0].expires_at == datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "meant"), [("", {}), ("600", {"passivate_after": 600.0}), ("'never'", {"passivate_after": None})]
)
def test_the_file_says_how_long_an_agents_runs_wait_in_memory(tmp_path, written, meant):
    """TOML has no null: `never` stands for it. Without the key, the declaration counts."""
    line = f"passivate_after = {written}" if written else ""
    configuration = read_configuration(write(tmp_path, f"[agents.x]\nimport = 'x:y'\n{line}"))
    assert configuration.agents["x"].limits == meant


@pytest.mark.parametrize(
    "content",
    [
        b"a=" + b"[" * 100_000 + b"]" * 100_000,
        b"people.p.identities=" + b"{a=" * 60 + b"1" + b"}" * 60,
        b"[server]\nport=" + b"9" * 5000,
        b"[server]\nport=0x" + b"f" * 5000,
        b'store="a\\u0000"',
        b'[people."\\u0000"]',
        b"\xff\xfea=1",
    ],
)
def test_no_content_of_a_file_is_more_than_an_error(tmp_path, content):
    """Also what a parser of TOML cannot read, or reads as a value that Python cannot write."""
    (tmp_path / "supervisor.toml").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"supervisor\.toml"):
        read_configuration(tmp_path / "supervisor.toml")


def test_no_kind_of_file_is_more_than_an_error(tmp_path):
    """A pipe that is never written to keeps no one waiting, and a device is not read to its end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for file in (tmp_path, tmp_path / "pipe", tmp_path / "loop", Path("/dev/zero")):
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_configuration(file)


@pytest.mark.parametrize("named", ["pipe", "~no-such-user/x", "/dev/zero", "."])
def test_no_file_of_a_secret_is_more_than_an_error(tmp_path, capsys, named):
    os.mkfifo(tmp_path / "pipe")
    text = f"[channels.telegram]\nconversation = 1\nbot_token_file = '{named}'"
    assert check(write(tmp_path, text)) == 2
    assert "channels.telegram.bot_token_file" in capsys.readouterr().err


def test_a_wait_of_less_than_no_time_is_refused_with_its_key(tmp_path):
    file = write(tmp_path, f"[agents.x]\nimport = '{AGENTS}:noting'\npassivate_after = -1")
    with pytest.raises(InvalidInput, match=r"agents\.x: passivate_after"):
        configured_agents(read_configuration(file))


def test_one_function_may_be_configured_as_several_agents(tmp_path):
    """Each with its own name, limits and rules."""
    text = f"""
    [agents.a]
    import = "{AGENTS}:noting"
    max_children = 1
    limit = "reviewers"
    [agents.b]
    import = "{AGENTS}:noting"
    rules = [{{ kind = "deny", tool = "shell", pattern = "rm" }}]
    """
    first, second = configured_agents(read_configuration(write(tmp_path, text))).values()
    assert (first.name, first.max_children, first.limit, first.rules) == ("a", 1, "reviewers", ())
    assert (second.name, second.max_children, second.limit, len(second.rules)) == ("b", 10_000, None, 1)
    assert locate(first) == locate(second)


def test_a_command_is_configured_with_its_folder_variables_rules_and_limits(tmp_path, monkeypatch):
    """The factory gets them; paths count from the file's folder."""
    monkeypatch.setitem(SCHEMES, "acp", "named_agents:fake_agent")
    text = """
    [agents.reviewer]
    acp = ["coder", "acp"]
    cwd = "work"
    env = { MODE = "fast" }
    stop_timeout = 5.0
    rules = [{ kind = "allow", tool = "reviewer.execute", pattern = "git status *" }]
    """
    named_agents.made.clear()
    found = configured_agents(read_configuration(write(tmp_path, text)))
    ((name, command, options),) = named_agents.made
    assert (name, command) == ("reviewer", ("coder", "acp"))
    assert (options["cwd"], options["env"]) == (str(tmp_path / "work"), {"MODE": "fast"})
    assert ([rule.pattern for rule in options["rules"]], options["stop_timeout"]) == (["git status *"], 5.0)
    assert locate(found["reviewer"]) == ("acp:coder acp", str(tmp_path / "supervisor.toml"))


def test_a_command_that_cannot_be_an_agent_is_named_by_check(tmp_path, monkeypatch):
    """With its key, and the factory's reason."""
    monkeypatch.setitem(SCHEMES, "acp", "no_such_module:agent")
    file = write(tmp_path, "[agents.reviewer]\nacp = ['coder']")
    with pytest.raises(InvalidInput, match=r"agents\.reviewer: acp:coder: .*no_such_module"):
        configured_agents(read_configuration(file))


def test_a_store_may_be_named_by_a_url(tmp_path):
    """It has an absolute path, which does not count from the file's folder."""
    assert read_configuration(write(tmp_path, "store = 'sqlite:///srv/a%20b.db'")).store_file == Path("/srv/a b.db")


def supervisor(tmp_path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command, env = [sys.executable, "-m", "supervisor", *arguments], os.environ | environment
    return preloaded.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=env)


def test_the_example_is_right_and_says_what_there_is(tmp_path):
    """`init` writes it once; `check` finds nothing wrong, also with everything in it that is commented out."""
    assert supervisor(tmp_path, "init").returncode == 0
    assert supervisor(tmp_path, "init").returncode == 2
    assert supervisor(tmp_path, "check").returncode == 0
    (tmp_path / "agents.py").write_text(
        "from supervisor import *\n@agent\nasync def janitor(ctx: Context, text: str) -> None: ..."
    )
    made = json.loads(supervisor(tmp_path, "token", "--json").stdout)
    assert made["hash"] == hash_token(made["token"])
    lines = [line.removeprefix("# ") if " = " in line or line[2:3] == "[" else line for line in EXAMPLE.splitlines()]
    whole = "\n".join(lines).replace('["sha256:..."]', f'["{made["hash"]}"]').replace('"..."', f'"{"0a" * 32}"')
    for name, secret in (
        ("telegram.token", "1:x"),
        ("mail.password", "secret"),
        ("slack.token", "xoxb-1"),
        ("slack.sign", "s"),
        ("slack.app", "xapp-1"),
        ("discord.token", "t"),
        ("push.secret", "s"),
        ("hook.secret", f"whsec_{'A' * 43}="),
    ):
        (tmp_path / name).write_text(secret)
    checked = supervisor(tmp_path, "check", str(write(tmp_path, whole)))
    assert (checked.returncode, "agents: 2" in checked.stdout) == (0, True), checked


CHANNELS = """
[channels.slack]
conversation = "#general"
agent = "nobody"
bot_token_file = "empty"
app_token_file = "away"
[channels.discord]
conversation = "1"
application = "x"
public_key = "abc"
"""


def test_each_thing_that_a_platform_lacks_is_a_line_and_no_line_has_a_secret(tmp_path):
    """With its key and what to do; `serve` refuses to begin for the same reasons."""
    (tmp_path / "empty").write_text("not-a-bot-token")
    secrets = {"SLACK_SIGNING_SECRET": "ssh", "DISCORD_BOT_TOKEN": "Bot hush"}
    file = str(write(tmp_path, CHANNELS))
    checked = supervisor(tmp_path, "check", file, **secrets)
    keys = ["slack.conversation", "slack.agent", "slack.bot_token_file", "slack.app_token_file"]
    keys += ["discord.application", "discord.public_key", "discord.bot_token_file"]
    assert checked.returncode == 2
    for line, key in zip(checked.stderr.splitlines(), keys, strict=True):
        assert f"channels.{key}: " in line
    assert not any(secret in checked.stderr for secret in ("not-a-bot-token", "ssh", "hush"))
    served = supervisor(tmp_path, "serve", "--config", file, "--store", "s.db", **secrets)
    assert (served.returncode, (tmp_path / "s.db").exists()) == (2, False)


def test_a_platform_without_any_secret_is_told_where_they_belong(tmp_path):
    """A variable, or a file that the configuration names."""
    checked = supervisor(tmp_path, "check", str(write(tmp_path, '[channels.slack]\nconversation = "C1"')))
    assert checked.returncode == 2
    of_buttons, of_bot = checked.stderr.splitlines()
    assert "SLACK_SIGNING_SECRET" in of_buttons
    assert "SLACK_BOT_TOKEN" in of_bot


def test_a_secret_that_others_may_know_signs_no_logins(tmp_path):
    """A5: an empty one, or one that others can read, is refused by its name; ours is made once, and kept."""
    file = tmp_path / "state.db.secret"
    made = store_secret(tmp_path / "state.db")
    assert store_secret(tmp_path / "state.db") == made == file.read_bytes()
    for content, mode in ((b"", 0o600), (made, 0o644)):
        file.write_bytes(content)
        file.chmod(mode)
        with pytest.raises(StoreUnreadable, match=r"state\.db\.secret"):
            store_secret(tmp_path / "state.db")


def test_a_secret_is_made_once_where_there_are_no_hard_links(tmp_path, monkeypatch):
    """exFAT, some shares and FUSE have none; what is there is never replaced."""

    def refuse(*names):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    made = store_secret(tmp_path / "state.db")
    assert store_secret(tmp_path / "state.db") == made
    assert [found.name for found in tmp_path.iterdir()] == ["state.db.secret"]


def test_without_configured_people_only_loopback_is_served(tmp_path):
    """Refused before anything is opened; the port is not bound, the store not made."""
    done = supervisor(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0", "--store", "s.db")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert not (tmp_path / "s.db").exists()


def test_configured_people_are_let_in_and_their_agents_offered(daemon, tmp_path):
    """The agent has its configured name and approvers; the operator's token is valid next to people's."""
    daemon.start("--config", str(write(tmp_path, RIGHT)))
    with daemon.client() as operator, daemon.client("ana's token") as ana, daemon.client("cleo's token") as cleo:
        body = {"agent": "notes", "input": {"x": "/dev/null"}, "session": "reserved"}
        assert ana.post("/api/sessions", json=body).status_code == 403
        assert operator.post("/api/sessions", json=body).status_code == 201
        while not (pending := operator.get("/api/approvals").json()["items"]):
            pass
        path = f"/api/approvals/{pending[0]['id']}/decision"
        assert ana.post(path, json={"decision": "approve"}).status_code == 403
        assert cleo.post(path, json={"decision": "approve"}).status_code == 200
    refused = json.loads(supervisor(tmp_path, "audit", "--store", str(daemon.store), "--json").stdout)
    assert [each["by"] for each in refused if each["event"] == "DecisionRefused"] == ["ana"]


def test_the_printed_link_logs_in(daemon):
    """As notebooks do, where no token was given; it leaves the address bar at once."""
    daemon.start(SUPERVISOR_TOKEN="")
    link = until(lambda: re.search(r"http\S+/login\?token=\S+", daemon.log.read_text()))[0]
    with daemon.client(None) as client:
        answer = client.get(link, headers={"sec-fetch-site": "none"})
        assert (answer.status_code, answer.headers["location"].partition("#")[0]) == (303, "/")
        assert client.get("/api/sessions").status_code == 200
        assert client.get(f"{link}x", headers={"sec-fetch-site": "none"}).status_code in (401, 303)


@pytest.mark.parametrize(("given", "status"), [({}, 200), ({"SUPERVISOR_TOKEN": ""}, 401)], ids=["given", "made"])
def test_a_login_is_good_for_as_long_as_its_token(daemon, given, status):
    """One that was given outlives the process, and so do logins by it; one that was made and printed does not."""
    daemon.start(**given)
    token = TOKEN if not given else until(lambda: re.search(r"token=(\S+)", daemon.log.read_text()))[1]
    with daemon.client(None) as client:
        assert client.get("/login", params={"token": token}, headers={"sec-fetch-site": "none"}).status_code == 303
        assert client.get("/api/sessions").status_code == 200
        daemon.stop()
        daemon.start(**given)
        assert client.get("/api/sessions").status_code == status


def test_a_token_is_in_the_environment_of_nothing_that_runs_here(monkeypatch, tmp_path):
    """T4: it is taken out before anything else is imported; a file goes before the variable, and must be there."""
    monkeypatch.setenv("SUPERVISOR_TOKEN", "from the environment")
    file = tmp_path / "token"
    file.write_text("a token from the file\n")
    assert read_token(file) == "a token from the file"
    assert "SUPERVISOR_TOKEN" not in os.environ
    assert read_token(None) is None
    file.write_text("fifteen letters")
    for bad in (file, tmp_path / "nowhere"):  # a guessable token is refused, since guessing is not locked out
        with pytest.raises(InvalidInput):
            read_token(bad)


def test_the_file_says_when_people_are_reminded(tmp_path):
    """A10: and how long runs that wait stay in memory; without the keys, the defaults of `open_supervisor` count."""
    text = "passivate_after = 5\nremind_after = 60\nescalate_after = 30\nescalate_to = ['ana']\n[people.ana]"
    found = []
    for written in (text, ""):
        configuration = read_configuration(write(tmp_path, written))
        settings = settle(configuration, store=tmp_path / "s.db", agents=[], host=None, port=None, operator=None)
        found.append((settings.passivate_after, settings.reminders))
    assert found == [
        (5.0, Reminders(remind_after=60, escalate_after=30, escalate_to=("ana",))),
        (60.0, Reminders()),
    ]


@pytest.mark.parametrize(("line", "is_on"), [("", True), ("remind_on_start = false", False)])
def test_the_file_says_whether_chats_get_cards_anew_after_a_restart(tmp_path, monkeypatch, line, is_on):
    """R3: on for chats."""
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "1:x")
    text = f"{line}\n[people.ana]\n[channels.telegram]\nconversation = -100"
    configuration = read_configuration(write(tmp_path, text))
    settings = settle(configuration, store=tmp_path / "s.db", agents=[], host=None, port=None, operator=None)
    assert [each.remind_on_start for each in settings.channels] == [is_on]


@pytest.mark.anyio
async def test_budgets_of_the_file_are_defaults_of_trees_and_of_agents(tmp_path):
    """[budget] bounds each tree that was started without one, and [agents.NAME.budget] each run of that agent, also as
    a sub-agent. They are in no journal: the file of today holds."""
    found = {}
    for requests in (2, 3):
        folder = tmp_path / f"{requests}"
        folder.mkdir()
        (folder / "spending.py").write_text(SPENDING)
        limits = f"[budget]\nrequests = {requests + 2}\n[agents.helper.budget]\nrequests = {requests}\n"
        agents = "[agents.boss]\nimport = 'spending.py:boss'\n[agents.helper]\nimport = 'spending.py:helper'\n"
        file = write(folder, limits + agents)
        given = {"store": tmp_path / "s", "agents": [], "host": None, "port": 0, "operator": None}
        settings = settle(read_configuration(file), **given)
        async with open_supervisor(MemoryStore(), budget=settings.budget) as supervisor:
            for name in ("helper", "boss"):
                run = await supervisor.start(settings.agents[name], session=name)
                async with run.watch_approvals() as watch:
                    question = await anext(watch)
                found[requests, name] = (question.path[-1], question.arguments)
                assert supervisor.store.journal(name)[0].event.budget is None
                await supervisor.cancel(name)
    assert found == {
        (2, "helper"): ("helper", {"requests": 4}),
        (2, "boss"): ("boss", {"requests": 8}),
        (3, "helper"): ("helper", {"requests": 6}),
        (3, "boss"): ("boss", {"requests": 10}),
    }


SPENDING = """
from supervisor import Context, StepContext, Usage, agent

async def ask(step: StepContext, number: int) -> None:
    step.used(Usage("m", usd=0.1))

@agent
async def helper(ctx: Context, times: int = 9) -> None:
    for number in range(times):
        await ctx.step(ask, number)

@agent
async def boss(ctx: Context) -> None:
    for _ in range(9):
        await ctx.run(helper, 1)
"""
