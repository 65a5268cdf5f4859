"""Commands whose answer is lost: those that do no harm a second time are sent again, all others only say so."""

from datetime import UTC, datetime

import pytest
from wires import problem, wired

from supervisor import Answer, Approve, Budget, NotEntitled, Schedule, ServerUnavailable, deny, open_remote
from supervisor.seam.commands import LAWS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_pauses")]
ID = "x" * 42


async def requests_of(command, expected) -> int:
    """Lose the answer to the first request of a command, and refuse the next one. Return how many it made."""
    answers = [b""]
    refused = problem(403, "not_entitled")
    async with wired(lambda request: answers.pop() if answers else refused) as wire:
        async with open_remote(wire.url, token="token-of-olga") as remote:
            with pytest.raises(expected) as raised:
                await command(remote)
            assert getattr(raised.value, "maybe_done", True)
        return len(wire.said)


REPEATED = {
    "approve": lambda remote: remote.decide(ID, Approve(by="olga")),
    "approve_all": lambda remote: remote.decide_all([(ID, Approve(by="olga"))]),
    "answer": lambda remote: remote.decide(ID, Answer(value=1, by="olga")),
    "send with an id": lambda remote: remote.send("s", "hello", message="m1"),
    "chat with an id": lambda remote: remote.chat("s", "yes", message="m1"),
    "start": lambda remote: remote.start("doubling", 1),
    "fork": lambda remote: remote.fork("s", before=2),
    "cancel": lambda remote: remote.cancel("s"),
    "raise_budget": lambda remote: remote.raise_budget("s", Budget(usd=5)),
    "add_rule": lambda remote: remote.add_rule(deny("note")),
    "acknowledge": lambda remote: remote.acknowledge([ID]),
    "snooze": lambda remote: remote.snooze([ID], datetime(2027, 1, 1, tzinfo=UTC)),
    "add_schedule": lambda remote: remote.add_schedule(Schedule("s", "a", cron="0 0 * * *")),
    "run_schedule": lambda remote: remote.run_schedule("s"),
}
METHODS = {"approve": "decide", "answer": "decide", "approve_all": "decide_all"}
SENT_ONCE = {
    "send": lambda remote: remote.send("s", "hello"),
    "chat": lambda remote: remote.chat("s", "yes"),
    "retry": lambda remote: remote.retry("s"),
    "resume": lambda remote: remote.resume("s"),
    "resume_all": lambda remote: remote.resume_all(),
    "change_schedule": lambda remote: remote.change_schedule("s", "paused"),
    "revoke_rule": lambda remote: remote.revoke_rule("r"),
    "reveal": lambda remote: remote.reveal(ID),
}


def test_each_command_of_a_person_has_a_row():
    """It is sent again, or once, as its law says."""
    repeated = {METHODS.get(name, name) for name in REPEATED if "with an id" not in name}
    of_people = [law for law in LAWS.values() if law.role != "program"]
    assert repeated == {law.method for law in of_people if law.repeats}
    assert {*SENT_ONCE} == {law.method for law in of_people if not law.repeats}


@pytest.mark.parametrize("name", REPEATED)
async def test_a_command_that_harms_nothing_a_second_time_is_sent_again(name):
    """It has an id of its own, or says what shall be so."""
    assert await requests_of(REPEATED[name], NotEntitled) == 2


@pytest.mark.parametrize("name", SENT_ONCE)
async def test_any_other_command_is_sent_once(name):
    """The error says that it may have been done."""
    assert await requests_of(SENT_ONCE[name], ServerUnavailable) == 1
