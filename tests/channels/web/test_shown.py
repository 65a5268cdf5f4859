"""A12: what a person was shown over HTTP outlives the process that showed it, and is forgotten with the approval."""

import signal

import pytest
from daemons import pending_of, until
from sites import world

from supervisor import Approve, StoreUnreadable
from supervisor.channels.web.shown import GROWTH, Shown


def test_a_yes_counts_after_the_process_that_showed_the_approval_was_killed(one_daemon):
    """A12: a person looks, the daemon is killed and started, and the person answers. No look comes in between."""
    with one_daemon.client() as client:
        for word, path in (("yes", "messages"), (None, "approve")):
            session = f"shown-{path}"
            started = {"agent": "noting", "input": {"bread": "/dev/null"}, "session": session}
            client.post("/api/sessions", json=started).raise_for_status()
            until(lambda session=session: pending_of(client, session))
            one_daemon.stop(signal.SIGKILL)
            one_daemon.start()
            body = None if word is None else {"text": word}
            said = client.post(f"/api/sessions/{session}/{path}", json=body)
            assert said.status_code == 200, said.text
            if word is not None:
                assert said.json()["kind"] == "decided"


@pytest.mark.anyio
async def test_a_look_counts_for_its_person_and_until_the_approval_no_longer_waits(tmp_path):
    """A second server of the same store knows what the first one showed, and to whom. What was decided is removed."""
    file = tmp_path / "s.db.shown"
    async with world() as here, here.client("ana") as ana:
        first, second = await here.ask(text="bread"), await here.ask(text="milk")
        here.site.shown = Shown(file)
        await ana.get(f"/api/approvals/{first.id}")
        await ana.get(f"/api/approvals/{second.id}")
        await ana.get(f"/api/approvals/{second.id}")
        assert file.read_text().count(second.id) == 1
        again = Shown(file)
        assert set(again.to("ana")) == {first.id, second.id}
        assert not again.to("cleo")
        await here.supervisor.decide(first.id, Approve(by="olga"))
        await again.prune(here.supervisor)
        assert set(Shown(file).to("ana")) == {second.id}
        assert not list(tmp_path.glob("s.db.shown.*"))


def test_a_line_that_a_killed_process_has_torn_costs_one_look_only(tmp_path):
    """The next line begins anew; a look that cannot be read was not seen."""
    file = tmp_path / "s.db.shown"
    file.write_bytes(b'{"person":"ana","approval":"a"}\n{"person":"ana","appr')
    shown = Shown(file)
    shown.note("ana", [Named("b")])
    assert list(Shown(file).to("ana")) == ["a", "b"]
    assert not shown.has_grown
    shown.note("bob", [Named(str(number)) for number in range(GROWTH)])
    assert shown.has_grown
    file.chmod(0o666)
    with pytest.raises(StoreUnreadable, match="others can write"):
        Shown(file)


class Named:
    """An approval, as far as the record knows it."""

    def __init__(self, name: str) -> None:
        self.id = name
