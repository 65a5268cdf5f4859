"""The web inbox in a real Chromium: what a person does, and what becomes of it."""

import re
import signal

from accessibility import AXE, violations
from daemons import TOKEN, pending_of, until

from supervisor.channels.web import rendering


def start(daemon, session, notes):
    """Start an agent that asks before it writes each note, one after the other."""
    with daemon.client() as client:
        client.post("/api/sessions", json={"agent": "noting", "input": notes, "session": session}).raise_for_status()
        until(lambda: pending_of(client, session))


def outcome(daemon, session):
    """What the agent returned in the end."""
    with daemon.client() as client:
        return until(lambda: client.get(f"/api/sessions/{session}").json()["outcome"])["value"]


def deny(daemon, session):
    """Deny what is pending, from elsewhere."""
    with daemon.client() as client:
        (asked,) = until(lambda: pending_of(client, session))
        client.post(f"/api/approvals/{asked['id']}/decision", json={"decision": "deny"}).raise_for_status()


def test_a_person_approves_edits_denies_and_comes_back_after_a_kill(daemon, person, tmp_path):
    """On both backends, daemon and page may be lost in between: the run goes on, once."""
    file = tmp_path / "notes"
    daemon.start()
    start(daemon, "shopping", dict.fromkeys(["apples", "bread", "milk", "salt", "wine"], str(file)))
    ana, bob = person(daemon), person(daemon)

    ana.card("apples").get_by_role("button", name="Approve once").click()
    ana.see(ana.card("apples").locator(".ending"), "approved by")

    bread = ana.see(ana.card("bread"))  # it appeared by itself
    bread.locator("summary", has_text="Edit…").click()
    bread.get_by_role("textbox", name="text").fill("rye bread")
    bread.get_by_role("button", name="Approve with these").click()

    milk = bob.see(bob.card("milk"))
    ana.see(ana.card("milk"))
    milk.locator("summary", has_text="Deny…").click()
    milk.get_by_label("Why not?").fill("we have some")
    milk.get_by_role("button", name="Deny").click()
    ana.see(ana.card("milk").locator(".ending"), "we have some")  # another browser's decision

    ana.see(ana.card("salt"))
    assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
    ana.see(ana.page.locator("#connection"), "lost")
    old = ana.card("salt").get_by_role("button", name="Approve once")
    old.click()
    ana.see(ana.card("salt").locator(".problem"), "not known whether it was counted")
    daemon.start()
    ana.page.locator("#connection").wait_for(state="hidden")
    old.click()
    ana.see(ana.card("salt").locator(".ending"), "approved by")

    ana.see(ana.card("wine")).get_by_role("button", name="Approve once").click()
    assert "denied" in outcome(daemon, "shopping")
    assert file.read_text() == "apples\nrye bread\nsalt\nwine\n"


def test_the_slower_person_reads_who_decided_first(one_daemon, person):
    """A3: a click on a card that was decided meanwhile runs nothing, and is told by whom."""
    start(one_daemon, "race", {"cake": "/dev/null"})
    ana = person(one_daemon)
    ana.context.route("**/api/events*", lambda route: route.abort())  # her page hears of nothing
    ana.page.reload()
    deny(one_daemon, "race")
    ana.card("cake").get_by_role("button", name="Approve once").click()
    ana.see(ana.card("cake").locator(".told"), "not counted")
    ana.see(ana.card("cake").locator(".ending"), "denied by")


def test_a_page_that_was_offline_shows_what_happened_meanwhile(one_daemon, person):
    """The stream goes on after the last event that the page has seen: nothing is missed, nothing comes twice. On a
    phone, nothing hides the words about a press that found no network."""
    start(one_daemon, "offline", {"cake": "/dev/null", "tea": "/dev/null"})
    ana = person(one_daemon, viewport={"width": 390, "height": 844}, has_touch=True)
    streams = []
    ana.page.on("request", lambda request: streams.append(request) if "/api/events" in request.url else None)
    deny(one_daemon, "offline")
    ana.see(ana.card("cake").locator(".ending"), "denied by")
    ana.see(ana.card("tea"))
    ana.context.set_offline(True)
    ana.see(ana.page.locator("#connection"), "lost")
    ana.card("tea").get_by_role("button", name="Approve once").tap()
    words = ana.see(ana.card("tea").locator(".sent"), "not known whether it was counted")
    middle = (
        "line => { const box = line.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }"
    )
    assert words.evaluate(f"line => document.elementFromPoint(...({middle})(line)) === line")
    deny(one_daemon, "offline")
    ana.context.set_offline(False)
    ana.see(ana.card("tea").locator(".ending"), "denied by")
    ana.page.locator("#connection").wait_for(state="hidden")
    assert streams[-1].headers["last-event-id"].partition(".")[2].isdecimal()


def test_a_press_whose_answer_is_lost_is_asked_for_and_a_message_arrives_once(one_daemon, person):
    """It is said that it is sent, then that it is not known, and then what the store says; no press counts twice. An
    answer that is no page of the server is none."""
    start(one_daemon, "lost", {"cake": "/dev/null"})
    with one_daemon.client() as client:
        client.post("/api/sessions", json={"agent": "chatting", "input": "hi", "session": "chat"}).raise_for_status()
    ana = person(one_daemon)
    welcome = {"body": "<p>Welcome to this network</p>", "content_type": "text/html"}
    ana.page.route("**/decision", lambda route: route.fulfill(**welcome), times=1)  # something on the way answers
    ana.see(ana.card("cake")).get_by_role("button", name="Approve once").click()
    ana.see(ana.card("cake").locator(".problem"), "The server says that it still waits")
    held = []
    ana.page.route("**/decision", lambda route: held.append(route))  # playwright takes no method
    ana.see(ana.card("cake")).get_by_role("button", name="Approve once").click()
    ana.see(ana.card("cake").locator(".sent"), "Sending…")
    ana.page.route("**/approvals/*", lambda route: route.abort())
    held[0].fetch()  # and the answer never comes
    ana.see(ana.card("cake").locator(".problem"), "not known whether it was counted")
    ana.page.unroute("**/approvals/*")
    ana.see(ana.card("cake").locator(".ending"), "approved by")

    ana.page.goto("/sessions/chat")
    ana.page.get_by_label("Say something").fill("transfer 5")
    ana.page.route("**/messages", lambda route: (route.fetch(), route.abort()), times=1)
    for said in ("not known whether it arrived", "A turn begins"):
        ana.page.get_by_role("button", name="Send").click()
        ana.see(ana.page.locator("#reply"), said)
    with one_daemon.client() as client:
        rows = client.get("/api/sessions/chat/journal", params={"limit": 1000}).json()["items"]
    assert [row["text"] for row in rows if row["event"] == "MessageReceived"] == ["transfer 5"]


def test_a_person_who_is_signed_out_or_has_an_old_page_is_told_and_loses_nothing(one_daemon, person):
    """What was typed is still there, and nothing was decided."""
    start(one_daemon, "old", {"cake": "/dev/null"})
    ana = person(one_daemon)
    cake = ana.see(ana.card("cake"))
    cake.locator("summary", has_text="Deny…").click()
    cake.get_by_label("Why not?").fill("too sweet")
    ana.page.evaluate("localStorage.setItem('supervisor.csrf', 'old')")
    cake.get_by_role("button", name="Deny").click()
    ana.see(cake.locator(".problem"))
    ana.context.clear_cookies()
    cake.get_by_role("button", name="Deny").click()
    ana.see(ana.page.get_by_role("link", name="Sign in again"))
    assert cake.get_by_label("Why not?").input_value() == "too sweet"
    with one_daemon.client() as client:
        assert len(pending_of(client, "old")) == 1


def test_a_person_decides_with_the_keyboard_alone(one_daemon, person, tmp_path):
    """No key decides a card that has not the focus; what appears takes none; a decided card is not decided again."""
    file = tmp_path / "notes"
    start(one_daemon, "keys", {"one": str(file), "two": str(file)})
    ana = person(one_daemon)
    ana.see(ana.card("one"))
    ana.page.keyboard.press("a")
    ana.card("one").locator("summary", has_text="Details").focus()
    ana.page.keyboard.press("a")  # something in the card has the focus, not the card
    ana.page.locator("#main").focus()
    ana.page.keyboard.press("j")
    assert ana.page.evaluate("document.activeElement.dataset.tone") == "pending"
    focused = ana.page.evaluate("document.activeElement.id")
    ana.page.keyboard.press("a")
    ana.see(ana.card("one").locator(".ending"), "approved")
    ana.see(ana.card("two"))
    assert ana.page.evaluate("document.activeElement.id") == focused
    ana.page.keyboard.press("a")  # on the card that is decided: nothing
    ana.page.keyboard.press("j")
    ana.page.keyboard.press("d")
    ana.page.keyboard.type("not a two")
    ana.page.keyboard.press("Escape")
    ana.page.keyboard.press("e")
    ana.page.keyboard.press("Escape")
    assert "two" in ana.page.evaluate("document.activeElement.textContent")
    ana.page.keyboard.press("a")
    assert "noted two" in outcome(one_daemon, "keys")
    assert file.read_text() == "one\ntwo\n"


def test_nothing_is_approved_whose_text_is_folded_or_whose_end_was_not_on_screen(one_daemon, person):
    """A11: the first press, of a key or of the button, opens the middle of a long text; its buttons stand below it."""
    long = "\n".join(f"line {number}" for number in range(200))
    start(one_daemon, "long", {long: "/dev/null", f"{long}\nother": "/dev/null"})
    ana = person(one_daemon)
    first = ana.see(ana.card("line 0"))
    assert not first.locator("pre", has_text="line 100").is_visible()
    assert first.locator("pre").evaluate_all("all => all.every(each => each.scrollHeight <= each.clientHeight + 1)")
    ana.page.locator("#main").focus()
    ana.page.keyboard.press("j")
    ana.page.evaluate("scrollTo(0, 0)")
    ana.page.keyboard.press("a")
    ana.page.wait_for_function("document.getElementById('news').textContent")
    ana.see(first.locator("pre", has_text="line 100"))
    with one_daemon.client() as client:
        assert pending_of(client, "long")
    ana.page.keyboard.press("a")
    other = ana.see(ana.card("other"))
    other.get_by_role("button", name="Approve once").click()
    ana.see(other.locator(".sent"), "Nothing is decided yet")
    ana.see(other.locator("pre", has_text="line 100"))
    other.get_by_role("button", name="Approve once").click()
    assert "noted" in outcome(one_daemon, "long")


def test_a_person_answers_questions(one_daemon, person):
    """One of several, yes or no, in one's own words; a click on a choice is that choice, whatever it says."""
    with one_daemon.client() as client:
        asked = {"agent": "wondering", "input": ["tea", "no <b>tea</b>"], "session": "questions"}
        client.post("/api/sessions", json=asked).raise_for_status()
    ana = person(one_daemon)
    ana.see(ana.card("What to drink?")).get_by_role("button", name="no <b>tea</b>").click()
    ana.see(ana.card("What to drink?").locator(".ending"), "answered")
    ana.see(ana.card("Really")).get_by_role("button", name="yes").click()
    ana.see(ana.card("Why?")).get_by_label("Your answer").fill("because\nof that")
    ana.card("Why?").get_by_role("button", name="Answer").click()
    assert outcome(one_daemon, "questions") == "no <b>tea</b>, True, because\nof that"


def test_a_page_without_scripts_is_read_and_decides_nothing(one_daemon, person):
    """On a phone of 320 pixels: without the token of the script, a cookie may come from any port of this host.
    The history is searched."""
    start(one_daemon, "plain", {"jam": "/dev/null"})
    ana = person(one_daemon, java_script_enabled=False, viewport={"width": 320, "height": 640})
    ana.see(ana.page.locator("noscript .problem"), "sign in again")
    ana.card("jam").get_by_role("button", name="Approve once").click()
    ana.see(ana.page.locator("main"), "sign in again")
    with one_daemon.client() as client:
        assert len(pending_of(client, "plain")) == 1
    deny(one_daemon, "plain")
    ana.page.goto("/history")
    for words, count in (("jam", 1), ("bread", 0)):
        ana.page.get_by_label("Words of what was asked").fill(words)
        ana.page.get_by_role("button", name="Search").click()
        assert ana.page.locator(".past").count() == count
        ana.see(ana.page.locator("main"), "denied by" if count else "Nothing was found")


def test_a_browser_that_has_only_the_cookie_reads_and_can_sign_out(one_daemon, person):
    """It lost the token, or the cookie came from another port: it says so, and a sign-in is the way back."""
    start(one_daemon, "read", {"jam": "/dev/null"})
    ana = person(one_daemon)
    ana.see(ana.card("jam"))
    assert "#" not in ana.page.url
    ana.page.evaluate("localStorage.clear()")
    ana.page.reload()
    ana.see(ana.page.locator("#connection"), "may only read here")
    ana.card("jam").get_by_role("button", name="Approve once").click()
    ana.see(ana.card("jam").locator(".problem"), "sign in again")
    ana.page.goto(f"/login?token={TOKEN}")
    ana.card("jam").get_by_role("button", name="Approve once").click()
    ana.see(ana.card("jam").locator(".ending"), "approved")
    ana.page.evaluate("localStorage.clear()")
    ana.page.get_by_role("button", name="Sign out").click()
    ana.see(ana.page.get_by_label("Your token"))


def test_very_many_at_once_are_rows_of_which_none_moves(one_daemon, person):
    """A row opens to the whole card; what others decide, and what comes, moves no other row and takes no focus. A press
    is one small answer, and what is drawn for it is one card, however many wait."""
    ana = person(one_daemon, viewport={"width": 390, "height": 844}, has_touch=True)
    ana.see(ana.page.locator("#empty"))
    with one_daemon.client() as client:
        client.post("/api/sessions", json={"agent": "asking_many", "input": 130, "session": "many"}).raise_for_status()
    ana.see(ana.page.locator("#waiting"), "130 decisions")
    ana.page.reload()
    ana.see(ana.page.locator("[data-waiting]"), "130 waiting")
    rows = ana.page.locator("[data-card]")
    assert rows.count() == 130
    assert rows.nth(129).evaluate("row => row.getBoundingClientRect().bottom + scrollY") < 14_000
    one_daemon_decides = rows.nth(0).get_attribute("data-card")
    rows.nth(1).get_by_role("link").first.tap()
    ana.see(rows.nth(1).locator(".facts"))
    place = "row => Math.round(row.getBoundingClientRect().top + scrollY)"
    before = [rows.nth(number).evaluate(place) for number in (1, 2, 100)]
    rows.nth(1).locator("summary", has_text="Deny…").click()
    rows.nth(1).get_by_label("Why not?").fill("half a reason")
    rows.nth(1).get_by_role("button", name="Deny").focus()
    opened = [rows.nth(number).evaluate(place) for number in (1, 2, 100)]
    with one_daemon.client() as client:
        for approval in (one_daemon_decides, rows.nth(1).get_attribute("data-card")):
            client.post(f"/api/approvals/{approval}/decision", json={"decision": "approve"}).raise_for_status()
    start(one_daemon, "later", {"cake": "/dev/null"})
    ana.see(ana.card("cake"))
    ana.see(rows.nth(0).locator(".ending"), "approved by")
    ana.see(rows.nth(1), "half a reason")
    assert ana.page.evaluate("document.activeElement.dataset.card") == rows.nth(1).get_attribute("data-card")
    assert [rows.nth(number).evaluate(place) for number in (1, 2, 100)] == opened
    assert opened[0] == before[0]
    assert rows.nth(130).locator("xpath=..").get_attribute("data-root") == "later"
    assert not AXE.exists() or violations(ana.page) == []
    long = "\n".join(f"line {number} of a long text" for number in range(2_000))
    start(one_daemon, "long", {long: "/dev/null"})
    ana.card("line 0 of").get_by_role("link").first.tap()
    card = ana.see(ana.card("line 1999 of").filter(has=ana.page.locator(".facts")))
    card.get_by_role("button", name="Approve once").click()
    ana.see(card.locator(".sent"), "a part of this was folded")
    asked = []
    ana.page.on(
        "response", lambda response: asked.append(len(response.body())) if "/events" not in response.url else None
    )
    with ana.counted() as done:
        card.get_by_role("button", name="Approve once").click()
        ana.see(ana.card("line 1000 of").locator(".ending"), "approved by")
    assert len(asked) == 1
    assert asked[0] < 4_000
    assert done["nodes"] < 60 < done["all"]
    assert done["styled"] < 300
    assert done["laid out"] < 300


def test_hostile_text_stays_text_and_fits_a_phone(one_daemon, person):
    """What an agent writes neither runs, nor widens the page, nor hides itself."""
    nasty = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202e\x1b[2J" + "x" * 400
    start(one_daemon, "hostile", {nasty: "/dev/null"})
    for scheme in ("light", "dark"):
        ana = person(one_daemon, viewport={"width": 320, "height": 640}, color_scheme=scheme)
        ana.page.on("dialog", ana.complained)
        card = ana.see(ana.card("onerror"))
        assert "⟨U+202E⟩⟨U+001B⟩[2J" in card.inner_text() or "⟨U+202E⟩\\u001b[2J" in card.inner_text()
        for page in ("/", "/sessions", "/sessions/hostile", "/history", "/rules", "/schedules"):
            ana.page.goto(page)
            assert ana.page.evaluate("document.documentElement.scrollWidth") == 320, page


def test_a_session_shows_its_tree_its_time_and_its_talk(one_daemon, person):
    """The session's page: what it asks, who is below it, what happened, a box to say something, all of it live."""
    with one_daemon.client() as client:
        asked = {"agent": "asking_many", "input": 2, "session": "many"}
        client.post("/api/sessions", json=asked).raise_for_status()
        until(lambda: len(pending_of(client, "many")) == 2)
    ana = person(one_daemon)
    ana.page.goto("/sessions/many")
    assert ana.page.locator("#tree").get_by_role("link", name="noting").count() == 2
    assert "waiting for a person" in ana.page.locator(".lane svg").nth(1).get_attribute("aria-label")
    ana.page.get_by_role("button", name="Approve once").first.click()
    ana.see(ana.page.locator(".ending"), "approved by")
    ana.see(ana.page.locator("#tree li"), "succeeded")
    ana.page.get_by_label("Say something").fill("hello there")
    ana.page.get_by_role("button", name="Send").click()
    ana.see(ana.page.locator("#reply"), re.compile("."))
    ana.see(ana.page.locator("#story"), "hello there")
    ana.page.get_by_role("button", name="Approve once").first.click()
    ana.see(ana.page.locator("#heading"), "succeeded")


LOOK = """(isSeen) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => !isSeen });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""As another tab is chosen, or this one again: a browser without windows shows all of its pages all the time."""


def test_many_tabs_of_one_browser_do_not_block_each_other(one_daemon, person):
    """A browser has six connections: only what is looked at keeps one, and is up to date when it is looked at again."""
    ana = person(one_daemon)
    first = ana.page
    ana.see(first.locator("#empty"))
    for _ in range(8):
        ana.page.evaluate(LOOK, False)
        ana.page = ana.context.new_page()
        ana.page.goto("/")
    start(one_daemon, "tabs", {"cake": "/dev/null"})
    ana.see(ana.card("cake"))  # the tab in front hears of it, and decides
    assert first.locator("[data-card]").count() == 0
    ana.card("cake").get_by_role("button", name="Approve once").click()
    assert outcome(one_daemon, "tabs") == "noted cake"
    start(one_daemon, "more", {"tea": "/dev/null"})
    ana.page.evaluate(LOOK, False)
    ana.page = first
    ana.page.evaluate(LOOK, True)
    ana.see(ana.card("tea"))
    with one_daemon.client() as client:
        until(lambda: "supervisor_event_streams 1\n" in client.get("/metrics").text)


def test_a_wrong_clock_of_the_reader_makes_nothing_older(one_daemon, person):
    """How long something waits is told by the server's clock."""
    start(one_daemon, "clock", {"cake": "/dev/null"})
    ana = person(one_daemon)
    ana.context.add_init_script("const now = Date.now; Date.now = () => now() + 5 * 3600 * 1000;")
    ana.page.reload()
    assert re.fullmatch(r"\d+ (s|min) ago", ana.card("cake").locator("time").first.inner_text())


def test_a_command_is_drawn_in_the_order_in_which_it_runs(browser):
    """Letters that are written from right to left do not swap its operands: each stands where it would be run."""
    css = rendering.asset("inbox.css")[0].decode()
    page = browser.new_page()
    drawn = {}
    for name in ("code shell", "output"):
        page.set_content(f"<style>{css}</style><pre class='{name}'><code>cp \u05d0 \u05d1</code></pre>")
        drawn[name] = page.evaluate(
            """() => [3, 5].map(at => {
                const text = document.querySelector("code").firstChild, range = document.createRange();
                range.setStart(text, at); range.setEnd(text, at + 1);
                return range.getBoundingClientRect().left;
            })"""
        )
    page.close()
    assert drawn["output"][0] > drawn["output"][1], "Chromium swaps them by default"
    assert drawn["code shell"][0] < drawn["code shell"][1]


def test_a_person_ticks_rows_and_decides_them_together(one_daemon, person):
    """On a phone: the button comes with the first tick, and what would run is shown before it counts. If no answer
    comes, the page says so, and shows what the store says."""
    ana = person(one_daemon, viewport={"width": 390, "height": 844}, has_touch=True)
    for name in "abcdef":
        start(one_daemon, f"tick-{name}", {"bread": "/dev/null"})
    ana.page.goto("/")
    press = ana.page.get_by_role("button", name="Decide the ticked ones together")
    assert not press.is_visible()
    ticks = ana.page.locator(".tick input")
    ticks.nth(0).check()
    ticks.nth(2).check()
    ana.see(press)
    assert violations(ana.page) == []
    press.tap()
    together = ana.see(ana.page.get_by_role("button", name="Approve these 2, which are equal"))
    assert violations(ana.page) == []
    ana.page.route("**/decisions", lambda route: (route.fetch(), route.abort()), times=1)
    together.tap()
    ana.see(ana.page.locator("main .problem"), "No answer came to your press")
    assert ana.page.locator(".together li").count() == 2
    ana.see(ana.page.locator(".together li"), "approved by")
    assert violations(ana.page) == []
    with one_daemon.client() as client:
        assert sum(len(pending_of(client, f"tick-{name}")) for name in "abcdef") == 4


def test_a_person_says_that_they_are_on_it_and_others_see_that(one_daemon, person):
    """For what the page shows, or for one card; a lost answer is not known until the server has said what it knows.
    Nothing is decided, nothing moves in the pages of others, and axe-core finds nothing."""
    for name in "abcdef":
        start(one_daemon, f"on-{name}", {"bread": "/dev/null"})
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    ana, bob = person(one_daemon, **phone), person(one_daemon, **phone)
    place = "() => [...document.querySelectorAll('[data-card]')].map((row) => row.getBoundingClientRect().top)"
    before = bob.page.evaluate(place)
    ana.page.route("**/hushes", lambda route: (route.fetch(), route.abort()), times=1)
    ana.page.get_by_role("button", name="I am on it").tap()
    line = ana.page.locator("#hush .sent")
    ana.see(line, "The server says: ")
    ana.page.get_by_role("button", name="I am on it").tap()
    ana.see(line, "You are on 6, for 30 minutes. Nothing is decided.")
    bob.see(bob.page.locator(".said").nth(5), "is on it")
    assert bob.page.evaluate(place) == before
    assert violations(bob.page) == []
    ana.page.reload()
    row = ana.see(ana.page.locator("[data-card]").nth(2), "is on it")
    row.get_by_role("link").first.tap()
    ana.see(row.locator(".facts"))
    row.locator("summary", has_text="Deny…").click()
    row.get_by_label("Why not?").fill("half a reason")
    row.locator("summary", has_text="Later…").click()
    assert violations(ana.page) == []
    row.get_by_role("button", name="2 hours").tap()
    ana.see(row.locator(".sent"), "You hear nothing of it until")
    assert row.get_by_label("Why not?").input_value() == "half a reason"
    with one_daemon.client() as client:
        waiting = client.get("/api/approvals").json()["items"]
        assert [each["acknowledged"] is not None for each in waiting] == [True] * 6
        assert sum(len(each["snoozed"]) for each in waiting) == 1
