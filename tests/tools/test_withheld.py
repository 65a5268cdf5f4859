"""T4: a command gets every variable of this process but those that hold secrets of ours."""

import pytest

from supervisor import People, Person, open_supervisor
from supervisor.cli.serving import read_token
from supervisor.core.approvals.channel_kinds import KINDS
from supervisor.core.approvals.people import TokenHash, hash_token, new_token
from supervisor.tools.call_environment import environment_of
from supervisor.wiring.config import read_configuration
from supervisor.wiring.platforms import _import, read_tables


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_ours_declares_the_secrets_of_its_entry(kind):
    """Its table is known without its import, so the two must not differ."""
    assert tuple(_import(KINDS[kind].where, "", None).secrets) == KINDS[kind].secrets


def test_a_command_gets_no_variable_that_a_kind_declares(monkeypatch):
    """Each of them, without any channel; other variables of the same platform pass."""
    declared = {secret.variable(kind) for kind, found in KINDS.items() for secret in found.secrets}
    assert {"TELEGRAM_BOT_TOKEN", "EMAIL_PASSWORD", "NTFY_TOKEN", "HOOK_SECRET", "SLACK_APP_TOKEN"} <= declared
    for name in (*declared, "SLACK_CHANNEL", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "x")
    seen = environment_of("mark")
    assert not declared & seen.keys()
    assert {"SLACK_CHANNEL", "GITHUB_TOKEN"} <= seen.keys()


def test_a_command_gets_no_variable_that_the_configuration_names(monkeypatch, tmp_path):
    """A second channel of a kind has variables of its own; a secret from a file stays secret in a variable, too."""
    (tmp_path / "secret").write_text("7:file-of-a-secret")
    file = tmp_path / "supervisor.toml"
    file.write_text("""
        [channels.on-call]
        kind = "telegram"
        conversation = 1
        [channels.ops]
        kind = "telegram"
        conversation = 2
        bot_token_file = "secret"
    """)
    monkeypatch.setenv("ON_CALL_BOT_TOKEN", "7:the-variable")
    monkeypatch.setenv("HEADER", "Bot 7:file-of-a-secret")
    assert "HEADER" in environment_of("mark")
    tables, problems = read_tables(read_configuration(file), People([]), {}, None)
    assert problems == []
    for table in tables:
        table.settings.make(table.setup)
    monkeypatch.setenv("ON_CALL_BOT_TOKEN", "another")  # taken out when it was read
    assert not {"ON_CALL_BOT_TOKEN", "HEADER"} & environment_of("mark").keys()


@pytest.mark.anyio
async def test_a_command_gets_no_variable_whose_value_is_a_token_that_we_hold(monkeypatch, tmp_path):
    """The operator's of a server, and those of people, of which we know the hash only."""
    mine, hers = new_token(), new_token()
    (tmp_path / "token").write_text(f"{mine}\n")
    monkeypatch.setenv("MINE", mine)
    monkeypatch.setenv("OF_ANA", hers)
    assert {"MINE", "OF_ANA"} <= environment_of("mark").keys()
    read_token(tmp_path / "token")
    people = People([Person(name="ana", tokens=(TokenHash(hash_token(hers)),))])
    async with open_supervisor("memory:", people=people):
        seen = environment_of("mark", {"GIVEN": hers})
    assert not {"MINE", "OF_ANA"} & seen.keys()
    assert seen["GIVEN"] == hers
