"""A daemon on Telegram is killed at every stage of post, record, press and edit; the next one goes on."""

import itertools

import pytest
from fake_telegram import FakeTelegram, codes, serving
from test_platform_deaths import COMMITS, Daemons, decide_elsewhere, nursery  # noqa: F401 # a fixture

ANA = 11
METHODS = ("sendMessage", "editMessageText", "answerCallbackQuery")


def deaths():
    """Every stage: around each commit, and around each thing that Telegram is asked to do."""
    for backend, when in itertools.product(("asyncio", "trio"), ("before", "after")):
        for where in (*range(1, COMMITS + 1), *METHODS):
            yield backend, when, where


ALL = list(deaths())
SAMPLE = [
    ("trio", "after", "sendMessage"),
    ("asyncio", "before", "editMessageText"),
    ("trio", "after", "editMessageText"),
    ("asyncio", "before", "answerCallbackQuery"),
    ("trio", "before", 5),
    ("asyncio", "after", 6),
]


@pytest.mark.slow
@pytest.mark.parametrize("death", SAMPLE, ids=str)
def test_an_approval_survives_a_death(nursery, tmp_path, death):  # noqa: F811 # the fixture
    """R2, R3, A11: one card that can be pressed; an approved call ran once, or is reported as lost (T2)."""
    story(nursery, tmp_path, *death)


@pytest.mark.soak
@pytest.mark.parametrize("death", ALL, ids=str)
def test_an_approval_survives_every_death(nursery, tmp_path, death):  # noqa: F811 # the fixture
    """The same, at each stage there is."""
    story(nursery, tmp_path, *death)


@pytest.mark.slow
def test_a_card_that_no_process_has_recorded_never_looks_live(nursery, tmp_path):  # noqa: F811 # the fixture
    """R3: the daemon dies after Telegram took the card; it is decided elsewhere, and no button was ever there."""
    with serving(FakeTelegram()) as fake:
        daemons = Daemons(nursery, tmp_path, "telegram", "trio", fake, identity=str(ANA))
        daemons.begin("after", "sendMessage")
        try:
            daemons.until(lambda: daemons.ask("sessions", agent="deployer", input="x", session="s") or fake.cards())
            daemons.until_dead()
            decide_elsewhere(tmp_path / "state.db")
            daemons.begin()
            daemons.until(lambda: (daemons.ask("sessions/s") or {}).get("outcome"))
        finally:
            daemons.end()
    assert [codes(card) for card in fake.cards()] == [[]]
    assert "editMessageText" not in fake.calls


def story(nursery, folder, backend, when, where):  # noqa: F811 # the fixture
    with serving(FakeTelegram()) as fake:
        daemons = Daemons(nursery, folder, "telegram", backend, fake, identity=str(ANA))
        daemons.begin(when, where)
        try:
            daemons.until(lambda: daemons.ask("sessions", agent="deployer", input="x", session="s"))
            card = daemons.until(lambda: next((card for card in fake.cards() if codes(card)), None))
            fake.press(card, "approve.0", ANA)
            daemons.until(lambda: (daemons.ask("sessions/s") or {}).get("outcome"))
            daemons.until(lambda: not any(codes(each) for each in fake.cards()))
            daemons.until(lambda: "telegram" not in daemons.ask("approvals?status=all")["items"][0]["shown"])
            daemons.until(lambda: not fake.updates)
            outcome = daemons.until(lambda: daemons.ask("sessions/s"))["outcome"]
        finally:
            daemons.end()
        assert daemons.deaths == 1 or where == COMMITS
        assert len(fake.cards()) == (2 if (when, where) == ("after", "sendMessage") else len(fake.cards()))
        ran = len((folder / "ran").read_text().splitlines()) if (folder / "ran").exists() else 0
        assert (outcome["value"], ran) in (("ok", 1), ("interrupted", 0), ("interrupted", 1)), (
            folder / "log"
        ).read_text()
