"""A table [channels.NAME] is of a kind: one of ours, one that a distribution offers, or a class that it imports."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor import Context, InvalidInput, People, Person, agent
from supervisor.cli.configuring import check
from supervisor.wiring.config import read_configuration
from supervisor.wiring.platforms import ENTRY_POINTS, KINDS, Kind, make_channels, read_tables


def written(tmp_path, text):
    (tmp_path / "supervisor.toml").write_text(text)
    return read_configuration(tmp_path / "supervisor.toml")


def made(tmp_path, text):
    return make_channels(written(tmp_path, text), People([Person(name="ana")]), {}, None)


def problems(tmp_path, text):
    return read_tables(written(tmp_path, text), People([Person(name="ana")]), {}, None)[1]


@pytest.fixture
def offered(tmp_path_factory, monkeypatch):
    """Install distributions that offer kinds, by name and class: what `pip` leaves of them is enough."""
    folder = tmp_path_factory.mktemp("site-packages")
    monkeypatch.syspath_prepend(folder)
    count = itertools.count()

    def offer(name, where):
        info = folder / f"other{next(count)}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {info.stem.partition('-')[0]}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{name} = {where}\n")

    return offer


def test_a_class_of_another_author_is_a_kind(tmp_path, monkeypatch):
    """Its Struct reads the table, and its secret comes from the environment, by the table's name."""
    monkeypatch.setenv("OFFICE_FAX_CODE", "0042")
    (channel,) = made(tmp_path, '[channels.office-fax]\nimport = "fax:FaxSettings"\nnumber = "555"')
    assert (channel.name, channel.number, channel.code) == ("office-fax", "555", "0042")


def test_a_distribution_offers_a_kind_and_only_a_named_one_is_imported(tmp_path, monkeypatch, offered):
    """The module of the other entry point does not exist."""
    monkeypatch.setenv("FAX_CODE", "1")
    monkeypatch.setenv("HOME_CODE", "2")
    offered("fax", "fax:FaxSettings")
    offered("telex", "no_such_module:Telex")
    channels = made(tmp_path, '[channels.fax]\nnumber = "1"\n[channels.home]\nkind = "fax"\nnumber = "2"')
    assert [(each.name, each.number, each.code) for each in channels] == [("fax", "1", "1"), ("home", "2", "2")]


def test_two_tables_may_be_of_one_kind_of_ours(tmp_path, monkeypatch):
    """Each has its own name, and so its own secrets, webhooks and identities of people."""
    for name in ("DISCORD", "SECOND"):
        monkeypatch.setenv(f"{name}_BOT_TOKEN", f"token-of-{name}")
    text = f'conversation = "1"\napplication = "2"\npublic_key = "{"0a" * 32}"\n'
    channels = made(tmp_path, f'[channels.discord]\n{text}[channels.second]\nkind = "discord"\n{text}')
    assert [each.name for each in channels] == ["discord", "second"]


@agent
async def helper(ctx: Context, text: str) -> None: ...


@pytest.mark.parametrize(
    ("kind", "where", "is_refused"),
    [
        ("slack", '"C2"', True),
        ("discord", '"2"\napplication = "1"\npublic_key = "00"', True),
        ("telegram", "-2", False),
    ],
)
def test_a_second_channel_of_a_kind_talks_or_says_that_it_does_not(tmp_path, kind, where, is_refused):
    """Only the ids of Telegram's sessions name their channel."""
    text = f'[channels.other]\nkind = "{kind}"\nagent = "helper"\nconversation = {where}\n'
    found = read_tables(written(tmp_path, text), People([Person(name="ana")]), {"helper": helper}, None)[1]
    assert any("channels.other.agent" in problem for problem in found) is is_refused


def test_a_kind_that_is_not_named_is_not_imported(tmp_path):
    """So no platform's library is loaded in vain."""
    (tmp_path / "supervisor.toml").write_text('[channels.fax]\nimport = "fax:FaxSettings"\nnumber = "1"')
    code = (
        "import sys; from pathlib import Path; from supervisor import People; "
        "from supervisor.wiring.platforms import *; "
        "from supervisor.wiring.config import read_configuration; "
        "print(read_tables(read_configuration(Path('supervisor.toml')), People([]), {}, None)[1]); "
        "sys.exit('slack_sdk' in sys.modules or 'httpx' in sys.modules)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, "FAX_CODE" in done.stdout) == (0, True), done.stderr


DISCORD = f'[channels.discord]\nconversation = "1"\napplication = "2"\npublic_key = "{"0a" * 32}"\n'


@pytest.mark.parametrize(
    ("text", "key", "part"),
    [
        ("[channels.fax]", "channels.fax: ", "the kinds are discord, "),
        ('[channels.x]\nkind = "fax"', "channels.x: ", "'fax'"),
        ('[channels.fax]\nimport = "fax"', "channels.fax.import: ", "MODULE:CLASS"),
        ('[channels.fax]\nimport = "no_such_module:Fax"', "channels.fax.import: ", "no_such_module"),
        ('[channels.fax]\nimport = "fax:Missing"', "channels.fax.import: ", "Missing"),
        ('[channels.fax]\nimport = "fax:Away"', "channels.fax.import: ", "ChannelSettings"),
        ('[channels.fax]\nimport = "fax:FaxSettings"', "channels.fax: ", "`number`"),
        ('[channels.fax]\nimport = "fax:FaxSettings"\nnumber = 1', "channels.fax.number: ", "str"),
        ('[channels.fax]\nimport = "fax:FaxSettings"\nnumber = "1"\nnumbr = 2', "channels.fax: ", "`numbr`"),
        ('[channels.fax]\nimport = "fax:FaxSettings"\nnumber = "x"', "channels.fax.number: ", "digits"),
        (f"{DISCORD}mention = ['eve']", "channels.discord.mention: ", "[people.eve]"),
        (f"{DISCORD}mention = 'all'", "channels.discord.mention: ", "'all'"),
    ],
)
def test_a_problem_of_a_table_is_one_line_with_file_and_key(tmp_path, monkeypatch, text, key, part):
    monkeypatch.setenv("FAX_CODE", "1")
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "t")
    (line,) = problems(tmp_path, text)
    assert line.startswith(f"{tmp_path / 'supervisor.toml'}: {key}")
    assert part in line
    assert "\n" not in line


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(KINDS, "fax", Kind("no_such_package.fax:Fax", "fax"))
    (line,) = problems(tmp_path, "[channels.fax]")
    assert line.endswith("channels.fax: no_such_package is not installed; pip install 'subagent-supervisor[fax]'")


def test_two_distributions_that_offer_one_kind_are_both_named(tmp_path, offered):
    offered("fax", "fax:FaxSettings")
    offered("fax", "telex:FaxSettings")
    (line,) = problems(tmp_path, "[channels.fax]")
    assert "fax:FaxSettings, telex:FaxSettings" in line


def test_a_secret_of_the_wrong_form_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("FAX_CODE", "hush")
    (line,) = problems(tmp_path, '[channels.fax]\nimport = "fax:FaxSettings"\nnumber = "1"')
    assert ("FAX_CODE" in line, "hush" in line) == (True, False)


def test_a_channel_that_does_not_take_its_name_is_refused(tmp_path):
    """Its decisions, webhooks and identities would be those of another channel."""
    with pytest.raises(InvalidInput, match=r"channels\.office: .*'fax'"):
        made(tmp_path, '[channels.office]\nimport = "fax:NamelessSettings"')


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[[routes]]", "routes[0]: "),
        ("[[routes]]\nask = ['fax']", "routes[0].ask: "),
        ("[[routes]]\nask = ['web']\n[[routes]]\nnotify = ['web']", "routes[1].notify: "),
        ("[[routes]]\nasks = ['web']", "routes[0]: "),
    ],
)
def test_a_route_that_cannot_work_is_named_by_check(tmp_path, text, key):
    (tmp_path / "supervisor.toml").write_text(text)
    with pytest.raises(InvalidInput) as raised:
        check(tmp_path / "supervisor.toml")
    assert str(raised.value).startswith(f"{tmp_path / 'supervisor.toml'}: {key}")
