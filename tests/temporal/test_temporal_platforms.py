"""A server on a namespace with another platform than Slack, and what is exported of its mirror."""

import json

import fake_discord
import pytest
from serving_processes import TOKEN, Served


@pytest.fixture
def discord():
    fake = fake_discord.FakeDiscord()
    with fake_discord.serving(fake):
        yield fake


def exported(cluster, *options: str, **env: str) -> list[dict]:
    """Return what is exported of a session, without what belongs to one store alone: positions, and cards."""
    process = cluster.start("export", "j", *options, stdout=-1, stderr=-1, **env)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    kept = [line for line in lines if not line["event"].startswith("Card")]
    return [{key: line[key] for key in line if key not in ("position", "entry")} for line in kept]


def test_a_press_on_discord_decides_and_all_exports_are_the_same(cluster, discord):
    """The server dies, and loses its mirror: the new one knows the card, and retires it after the press. An export
    over the namespace, the file of the mirror and HTTP is the whole tree."""
    cluster.worker()
    server = Served(cluster, discord)
    server.start()
    cluster.run("start", "janitor", '["/srv/a"]', "--session", "j", "--detach")
    (asked,) = cluster.pending()
    cluster.until(lambda: server.shows(asked["id"]))
    server.kill()
    server.lose_mirror()
    server.start()
    (card,) = discord.messages.values()
    server.press(discord, card, "approve.0")
    assert cluster.outcome("j")["value"] == ["removed /srv/a"]
    cluster.until(lambda: not fake_discord.buttons(card))
    assert "ana" in cluster.run("show", "j")
    assert list(discord.messages.values()) == [card]
    whole = exported(cluster)
    assert [line["event"] for line in whole][:: len(whole) - 1] == ["SessionCreated", "RunFinished"]
    cluster.until(lambda: exported(cluster, "--store", str(server.mirror)) == whole)
    del cluster.environment["SUPERVISOR_STORE"]
    assert exported(cluster, "--server", server.url, SUPERVISOR_TOKEN=TOKEN) == whole
    assert fake_discord.TOKEN not in server.log.read_text()
