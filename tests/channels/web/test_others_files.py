"""Files that other users own or can change are not used, since they could decide what is in them."""

import os
from pathlib import Path

import pytest

from supervisor import People, SqliteStore, StoreUnreadable
from supervisor.channels.discord.settings import BOT, DiscordSettings
from supervisor.channels.sdk import ChannelSetup
from supervisor.channels.web.revocations import Revocations
from supervisor.channels.web.shown import Shown, shown_of
from supervisor.cli.serving import read_token
from supervisor.system.access import OTHERS_WRITE, why_not_ours
from supervisor.tools.background import make_job_folder
from supervisor.wiring.daemon import store_secret


def use_store(store):
    opened = SqliteStore(store)
    opened.open()
    opened.close()


def use_owners(store):
    opened = SqliteStore(store)
    opened.open()
    try:
        assert opened.begin()
        opened.claim("a")
        opened.commit()
    finally:
        opened.close()


USES = {
    "": use_store,
    ".owners": use_owners,
    ".jobs": lambda store: make_job_folder(f"{store}.jobs", "s"),
    ".secret": store_secret,
    ".revoked": lambda store: Revocations(Path(f"{store}.revoked")).refresh(),
    ".shown": lambda store: Shown(shown_of(store)),
}


@pytest.fixture
def store(tmp_path):
    """A store with all files that may lie next to it."""
    path = tmp_path / "state.db"
    for use in USES.values():
        use(path)
    for name in ("revoked", "shown"):
        (tmp_path / f"state.db.{name}").touch(0o600)
    return path


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_a_file_that_others_can_write_is_refused_until_they_cannot(store, name, bits):
    """The store and the files next to it, each with one fault."""
    path = Path(f"{store}{name}")
    if name == ".revoked":
        path.write_text('{"token": "x", "at": "2026-01-01T00:00:00Z", "by": "olga"}\n')
    was = path.stat().st_mode
    path.chmod(was | bits)
    with pytest.raises((StoreUnreadable, PermissionError)):
        USES[name](store)
    path.chmod(was)
    USES[name](store)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("owner", [0, 1000, 1001])
def test_a_file_that_another_user_owns_is_refused(store, monkeypatch, owner):
    """We trust our own files and root's; root opens every user's store, and serves only its own."""
    os.chown(store, owner, owner)
    use_store(store)
    if owner != 0:
        with pytest.raises(StoreUnreadable):
            store_secret(store)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (why_not_ours(store, OTHERS_WRITE) is None) == (owner != 1001)
    if owner == 1001:
        with pytest.raises(StoreUnreadable):
            use_store(store)


def test_a_token_file_that_others_can_read_is_said(tmp_path, capsys):
    """It is taken: many systems hand secrets out in this way."""
    file = tmp_path / "token"
    file.write_text("0123456789abcdef")
    for mode, is_said in ((0o600, False), (0o644, True)):
        file.chmod(mode)
        assert read_token(file) == "0123456789abcdef"
        assert (str(file) in capsys.readouterr().err) == is_said


def test_a_platforms_secret_that_others_can_read_is_said(tmp_path, caplog, monkeypatch):
    """In the log of the daemon, by the key that names the file; never with anything of it."""
    monkeypatch.delenv("DISCORD_BOT_TOKEN", raising=False)
    file = tmp_path / "discord.token"
    file.write_text("a-bot-token")
    settings = DiscordSettings(conversation="1", application="2", public_key="0a" * 32, bot_token_file=str(file))
    setup = ChannelSetup(name="discord", people=People([]))
    for mode, is_said in ((0o600, False), (0o644, True)):
        file.chmod(mode)
        assert settings.take_secret(BOT, setup) == "a-bot-token"
        assert ("secret.open_to_others" in caplog.text) == is_said
    assert "a-bot-token" not in caplog.text
