"""A server on a namespace: HTTP, pages and cards over a mirror, which may be lost, and servers that may die."""

import signal
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import fake_slack
import pytest
from clusters import Cluster
from msgspec.structs import replace
from serving_processes import EVE, Served, cards, has_buttons
from temporal_server import Server, namespace, working

from supervisor import Context, agent
from supervisor.core import events as e
from supervisor.core.store_urls import read_temporal_url
from supervisor.runtime.people.posting import LocalCards
from supervisor.temporal import open_temporal
from supervisor.temporal.client import cards as cards_of_namespace
from supervisor.temporal.client.cards import NamespaceCards
from supervisor.temporal.client.remote import TemporalSupervisor
from supervisor.temporal.connection import connect_to_server
from supervisor.temporal.mirror.mirror import Mirror
from supervisor.temporal.mirror.store import MirrorStore
from supervisor.testing import replaced, wrapped
from supervisor.wiring.config import read_configuration
from supervisor.wiring.daemon import settle


@pytest.fixture
def slack():
    fake = fake_slack.FakeSlack()
    with fake_slack.serving(fake):
        yield fake


def start(cluster, session: str = "j") -> dict:
    """Let an agent ask for one thing, and return what it asks."""
    cluster.run("start", "janitor", '["/srv/a"]', "--session", session, "--detach")
    return next(each for each in cluster.pending() if each["session"] == session)


def test_people_decide_on_a_card_and_over_http_as_on_one_machine(cluster, slack):
    """The inbox, a page, a Slack card and the API show one approval; the press on the card decides it. The metrics have
    those of the client of Temporal."""
    cluster.worker()
    server = Served(cluster, slack)
    server.start()
    asked = start(cluster)
    cluster.until(lambda: server.shows(asked["id"]))
    assert [each["id"] for each in server.get("/api/approvals")["items"]] == [asked["id"]]
    assert "/srv/a" in server.get("/sessions/j")
    server.press(slack, cards(slack)[0], "approve.0")
    assert cluster.outcome("j")["value"] == ["removed /srv/a"]
    cluster.until(lambda: not has_buttons(cards(slack)[0]))
    assert server.get("/api/sessions/j")["outcome"]["kind"] == "succeeded"
    assert len(cards(slack)) == 1
    assert "temporal_request{" in server.get("/metrics")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 128 + signal.SIGTERM


def test_a_server_that_was_killed_goes_on_with_its_mirror_or_without(cluster, slack):
    """SIGKILL, and then the mirror is lost: the same session and the same card, which is retired after a decision."""
    cluster.worker()
    server = Served(cluster, slack)
    server.start()
    asked = start(cluster)
    cluster.until(lambda: server.shows(asked["id"]))
    server.kill()
    server.start()
    before = server.get("/api/sessions/j/journal")["items"]
    server.kill()
    server.lose_mirror()
    server.start()
    after = server.get("/api/sessions/j/journal")["items"]
    told = [[each["event"] for each in told if not each["event"].startswith("Card")] for told in (before, after)]
    assert told[0] == told[1] != []
    server.kill()
    server.lose_mirror()
    cluster.run("approve", asked["id"], "--by", "bob")
    assert cluster.outcome("j")["kind"] == "succeeded"
    server.start()
    cluster.until(lambda: not has_buttons(cards(slack)[0]))
    assert len(cards(slack)) == 1


def test_two_servers_post_one_card_and_the_one_that_lives_retires_it(cluster, slack):
    """Each has a mirror of its own, and only the first to claim the card posts it."""
    cluster.worker()
    servers = [Served(cluster, slack, "one"), Served(cluster, slack, "two")]
    for each in servers:
        each.start()
    asked = start(cluster)
    for each in servers:
        cluster.until(lambda each=each: each.shows(asked["id"]))
    servers[0].kill()
    cluster.run("approve", asked["id"], "--by", "bob")
    cluster.until(lambda: not has_buttons(cards(slack)[0]))
    assert slack.calls.count("chat.postMessage") == 1


def test_a_mirror_is_only_read_by_other_programs(cluster, slack):
    """A command on its file reads; a decision there is refused, since it would come to no tree; so is a server."""
    cluster.worker()
    server = Served(cluster, slack)
    server.start()
    asked = start(cluster)
    cluster.until(lambda: server.shows(asked["id"]))
    there = ("--store", str(server.mirror))
    assert "/srv/a" in cluster.run("show", "j", *there)
    assert cluster.url in cluster.run("approve", asked["id"], *there, code=6)
    assert "--mirror" in cluster.run("serve", "--mirror", str(server.mirror), "--port", "0", code=2)
    assert [each["id"] for each in cluster.pending()] == [asked["id"]]


def test_a_server_goes_on_when_that_of_temporal_is_back(tmp_path, slack):
    """SIGKILL of Temporal's: pages are shown from the mirror meanwhile, and then new sessions come."""
    temporal = Server(tmp_path / "temporal.db")
    cluster = Cluster(anyio.run(namespace, temporal), tmp_path)
    try:
        cluster.worker()
        server = Served(cluster, slack)
        server.start()
        asked = start(cluster)
        cluster.until(lambda: server.shows(asked["id"]))
        temporal.kill()
        cluster.until(lambda: "server.lost" in server.log.read_text())
        assert [each["id"] for each in server.get("/api/approvals")["items"]] == [asked["id"]]
        assert server.decide(asked["id"]) == 503
        temporal.start()
        cluster.until(lambda: server.decide(asked["id"]) in (200, 202))
        assert cluster.outcome("j")["kind"] == "succeeded"
        cluster.until(lambda: server.get("/api/sessions/j")["outcome"] is not None)
    finally:
        cluster.kill()
        temporal.kill()


def test_a_mirror_that_is_lost_while_no_worker_lives_shows_what_waits(cluster, slack):
    """From the server alone. A person who may not decide is refused; a decision counts when a worker lives."""
    cluster.worker()
    asked = start(cluster)
    cluster.kill()
    server = Served(cluster, slack)
    server.start()
    assert [each["id"] for each in server.get("/api/approvals")["items"]] == [asked["id"]]
    assert server.decide(asked["id"], EVE) == 403
    assert server.decide(asked["id"]) == 202
    cluster.worker()
    assert cluster.outcome("j")["kind"] == "succeeded"


class Chat:
    """A channel whose cards are claimed."""

    name, keeps_cards = "chat", True


@agent
async def asking(ctx: Context, number: int) -> str:
    return await ctx.ask(f"{number}?")


def _cards(supervisor):
    trees, inputs = supervisor.trees, supervisor.near.reader.inputs
    return NamespaceCards(supervisor.runner, inputs, trees.client, trees.named, [Chat()])


@asynccontextmanager
async def claimed(enter):
    """Twelve approvals whose cards a server has begun to post, which then died; and a maker of other servers."""

    async def note(*_) -> None:
        """The mirror of this server is not looked at."""

    enter(replaced(LocalCards, "note", note))
    enter(replaced(cards_of_namespace, "STALE", timedelta(seconds=1)))
    url = await namespace()
    named, begun = read_temporal_url(url), datetime.now(UTC)
    client = await connect_to_server(named)

    def server() -> NamespaceCards:
        return _cards(TemporalSupervisor(client, named))

    with anyio.fail_after(60):  # no wait of these tests is long
        async with working(url, [asking]), open_temporal(url) as supervisor:
            for number in range(12):
                await supervisor.start(asking, number)
            while len(found := await supervisor.find_approvals()) < 12:
                await anyio.sleep(0.05)
            first = server()
            for each in found:
                assert await first.claim(each, e.CardBegun(at=begun, approval=each.id, channel="chat")) is None
            yield list(found), server, supervisor


@pytest.mark.anyio
async def test_a_card_that_was_claimed_and_not_posted_is_taken_over(enter):
    """Once the claim is stale, by one other server. It knows since when there may be a card, which it searches for; a
    third one shows the card that it has posted."""
    async with claimed(enter) as ((approval, *_), server, _):
        second, third = server(), server()
        begun = e.CardBegun(at=datetime.now(UTC), approval=approval.id, channel="chat")
        left = await second.claim(approval, begun)
        assert left.card is None
        assert datetime.now(UTC) - left.begun_at > timedelta(seconds=1)
        await second.note(approval, e.CardPosted(at=datetime.now(UTC), approval=approval.id, channel="chat", card="42"))
        assert (await third.claim(approval, begun)).card == "42"


@pytest.mark.anyio
async def test_a_step_is_told_by_one_server_and_after_its_death_by_another_one(enter):
    """Every server lets the steps come. Who has begun sends it; if it says nothing more, the next one does; what was
    sent is sent by none. A message is no card: no server looks for it at its start."""
    async with claimed(enter) as ((approval, *others), _, one), open_more(one) as two, open_more(one) as three:
        due, where = datetime.now(UTC), {"channel": "chat", "place": "c", "is_notice": False}
        came = [replace(each, step=1, reminded_at=due) for each in (approval, *others)]
        first, second, third = map(_cards, (one, two, three))
        lasts = timedelta(seconds=5)
        assert await first.begin_to_tell(came, where, lasts) == [None] * 12
        assert await first.begin_to_tell(came, where, lasts) == [None] * 12, "its message has failed"
        waits = await second.begin_to_tell(came, where, lasts)
        assert {type(each) for each in waits} == {e.ReminderBegun}
        await first.note(came[0], e.ReminderSent(at=due, approval=approval.id, due=due, **where))
        await anyio.sleep(5.1)
        sent, *mine = await second.begin_to_tell(came, where, lasts)
        assert isinstance(sent, e.ReminderSent)
        assert mine == [None] * 11
        sent, *waits = await third.begin_to_tell(came, where, lasts)
        assert isinstance(sent, e.ReminderSent)
        assert {type(each) for each in waits} == {e.ReminderBegun}
        again = replace(came[0], step=2)
        assert await third.begin_to_tell([again], where, lasts) == [None]


def open_more(supervisor):
    """Open the namespace again, as another server does."""
    return open_temporal(str(supervisor.trees.named))


@pytest.mark.anyio
async def test_a_server_reads_some_cards_at_a_time_at_its_start(enter):
    """Neither one after the other, nor all at once."""
    enter(replaced(cards_of_namespace, "AT_ONCE", 5))
    reading, most, noted = set(), [0], []

    async def read(usual, self, key: str):
        reading.add(key)
        most.append(len(reading))
        try:
            return await usual(self, key)
        finally:
            reading.discard(key)

    class Feed:
        async def note(self, found) -> None:
            noted.extend(found)

    enter(wrapped(NamespaceCards, "_read", read))
    async with claimed(enter) as (approvals, _, supervisor):
        found = _cards(supervisor)
        while {event.approval for _, event in noted} != {each.id for each in approvals}:  # the server lists them late
            await found.find_lost(Feed())
    assert max(most) == 5


REFUSED = {
    "[agents]": "[agents.x]\nimport = 'agents.py:x'\n",
    "traces": "traces = true\n",
    "[[rules]]": "[[rules]]\nkind = 'deny'\ntool = 'shell'\n",
}
"""By key: a configuration that has it."""


async def read_by_three() -> None:
    """The second reader waits for the first one; the third one comes while the second one reads."""
    store, reading, ends = MirrorStore("m"), list[int](), [anyio.Event() for _ in range(3)]
    mirror, numbers = Mirror(None, None, store, store, None), iter(range(3))

    async def read_alone(root: str, turn: anyio.Event | None) -> None:
        reading.append(number := next(numbers))
        assert reading == [number]
        await ends[number].wait()
        reading.clear()

    mirror._read_alone = read_alone
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mirror._read_on, "j")
        tasks.start_soon(mirror._read_on, "j")
        await anyio.wait_all_tasks_blocked()
        ends[0].set()
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(mirror._read_on, "j")
        await anyio.wait_all_tasks_blocked()
        ends[1].set()
        ends[2].set()


def test_a_tree_is_read_by_one_reader_at_a_time():
    """Two would write the same entries."""
    anyio.run(read_by_three)


def test_a_configuration_with_the_work_of_workers_is_refused(cluster):
    """By its key, in one line, and before a mirror is made. A rule that names who decides is the server's own."""
    file = cluster.folder / "supervisor.toml"
    for key, text in REFUSED.items():
        file.write_text(text)
        said = cluster.run("serve", "--config", str(file), "--mirror", str(cluster.folder / "m.db"), code=2)
        assert said.startswith(f"supervisor: {key}")
        assert said.count("\n") == 1
    assert not (cluster.folder / "m.db").exists()
    file.write_text("[people.ana]\n[[rules]]\nkind = 'ask'\ntool = 'shell'\napprovers = ['ana']\n")
    named = read_temporal_url(cluster.url)
    given = {"store": cluster.folder / "m.db", "agents": [], "host": None, "port": None, "operator": None}
    assert settle(read_configuration(file), temporal=named, **given).temporal == named
