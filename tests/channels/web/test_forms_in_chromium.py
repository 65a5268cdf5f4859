"""Forms in a real Chromium: on a phone, with the keyboard alone, and for everyone (WCAG 2.2 AA)."""

import pytest
from accessibility import AXE, violations
from daemons import until


def outcome(daemon, session):
    with daemon.client() as client:
        return until(lambda: client.get(f"/api/sessions/{session}").json()["outcome"])["value"]


def test_a_person_starts_answers_and_edits_on_a_phone(one_daemon, person):
    """On a phone: each button sends the form and keeps what was typed; a problem stands at its field."""
    ana = person(one_daemon, viewport={"width": 360, "height": 640})
    page = ana.page
    page.get_by_role("link", name="Agents").click()
    page.get_by_role("link", name="booking").click()
    page.get_by_label("traveller").fill("Ana <i>")
    page.get_by_label("kind").select_option("train")
    page.get_by_role("group", name="luggage").get_by_label("yes").check()
    page.get_by_role("button", name="Start", exact=True).click()
    ana.see(page.locator(".summary"), "leaves: this must be filled in")
    page.get_by_label("leaves").fill("2026-12-24")
    page.get_by_role("button", name="Start", exact=True).click()

    session = page.url.rpartition("/")[2]
    page.get_by_role("link", name="Inbox").click()
    card = ana.see(ana.card("Which journey?"))
    cities = page.get_by_label("city")
    for number in range(2):
        card.get_by_role("button", name="Add stops").click()
        cities.nth(number).wait_for()
    cities.nth(0).fill("Rome")
    cities.nth(1).fill("Oslo")
    page.get_by_role("button", name="Remove stops 1").click()
    cities.nth(1).wait_for(state="detached")  # else what is typed is lost with the old form
    page.get_by_label("traveller").fill("Bob")
    page.get_by_label("leaves").fill("2026-12-24")
    page.get_by_label("kind").select_option("bus")
    page.get_by_role("group", name="luggage").get_by_label("no").check()
    page.get_by_role("button", name="Answer", exact=True).click()
    ana.see(page.locator(".ending"), "answered")

    card = ana.see(ana.card("asks to call book"))
    card.locator("summary", has_text="Edit…").click()
    card.get_by_role("textbox", name="seats").fill("two")
    card.get_by_role("button", name="Approve with these").click()
    ana.see(page.locator(".wrong-text"), "number")
    assert page.get_by_role("textbox", name="city").input_value() == "Oslo"
    page.get_by_role("textbox", name="seats").fill("2")
    page.get_by_role("button", name="Approve with these").click()
    ana.see(page.locator(".ending"), "approved with other arguments")
    assert outcome(one_daemon, session) == "2 for Bob to Oslo"


def ask(daemon, session="asked"):
    trip = {"traveller": "Ana", "leaves": "2026-12-24", "kind": "bus", "luggage": True, "stops": []}
    with daemon.client() as client:
        asked = {"agent": "booking", "input": trip, "session": session}
        client.post("/api/sessions", json=asked).raise_for_status()


def test_a_form_is_filled_in_with_the_keyboard_alone(one_daemon, person):
    """Nothing takes the focus away: after Add it is in the new field, after a problem on the summary, whose links lead
    to the fields; Enter in a line decides nothing."""
    ask(one_daemon)
    ana = person(one_daemon)
    keys = ana.page.keyboard
    focused = "document.activeElement"
    ana.see(ana.card("Which journey?")).focus()
    keys.press("a")
    assert ana.page.evaluate(f"{focused}.labels[0].textContent").startswith("traveller")
    keys.type("Ana")
    ana.page.get_by_role("button", name="Add stops").focus()
    keys.press("Enter")
    until(lambda: ana.page.evaluate(f"{focused}.matches('textarea[name$=\".0.0\"]')"))
    keys.type("R")
    ana.page.get_by_label("budget").focus()
    keys.press("Enter")
    until(lambda: ana.page.evaluate(f"{focused}.matches('.summary')"))
    keys.press("Tab")
    keys.press("Enter")
    until(lambda: ana.page.evaluate(f"{focused}.name !== undefined && {focused}.closest('.wrong') !== null"))
    assert ana.page.get_by_label("city").input_value() == "R"
    with one_daemon.client() as client:
        assert len(client.get("/api/approvals").json()["items"]) == 1


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed in .peers")
def test_axe_finds_nothing(one_daemon, person):
    """Labels, groups, names, contrast: on a screen and on a phone, with problems and without."""
    ask(one_daemon)
    for width, scheme in ((1280, "light"), (360, "dark")):
        ana = person(one_daemon, color_scheme=scheme, viewport={"width": width, "height": 800})
        page = ana.page
        ana.see(ana.card("Which journey?"))
        assert violations(page) == []
        page.get_by_role("button", name="Add stops").click()
        page.get_by_role("button", name="Add home").click()
        page.get_by_role("button", name="Answer", exact=True).click()
        ana.see(page.locator(".summary"))
        assert violations(page) == []
        for place in (
            "/agents",
            "/agents/booking",
            "/agents/chatting",
            "/history",
            "/history?tool=x",
            "/history?text=%3F",
        ):
            page.goto(place)
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
