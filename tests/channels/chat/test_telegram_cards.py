"""Any approval renders within every limit of Telegram, and what is pressed on it means what was offered."""

from fake_telegram import codes, datas, live
from hypothesis import example, given, strategies as st
from msgspec.structs import replace
from test_cut_cards import BURIED, EVIL, PAGE
from test_platform_cards import ID, NOW, approvals, call, decided_ones, hostile, question

from supervisor import Option
from supervisor.channels.chat.presses import FORMS, buttons_of, decision_of
from supervisor.channels.telegram import messages
from supervisor.channels.wording.lengths import length
from supervisor.core.approvals.facts import is_whole
from supervisor.core.ids import new_approval_id
from supervisor.core.values import Answer, Approve

OURS = new_approval_id("root")


def keeps_limits(message):
    text = message["text"]
    assert 0 < length(text) <= 4096
    assert "parse_mode" not in message
    assert message["link_preview_options"] == {"is_disabled": True}
    assert len(message["entities"]) <= 100
    for each in message["entities"]:
        assert 0 <= each["offset"] < each["offset"] + each["length"] <= length(text)
    for row in message.get("reply_markup", {}).get("inline_keyboard", ()):
        assert 0 < len(row) <= 8
        assert all(0 < length(button["text"]) <= 64 for button in row)
    assert all(0 < len(data.encode()) <= 64 for data in datas(message))


@given(approvals(), st.lists(st.tuples(st.just("5"), hostile), max_size=20))
def test_a_card_keeps_every_limit_and_nothing_in_it_is_live(approval, mentioned):
    """No text of an agent becomes a mention, a command or a tag; the id is the last line, whole."""
    approval = replace(approval, id=OURS)
    card = messages.card_message(approval, "https://example.org/inbox", [(id_, name or "-") for id_, name in mentioned])
    keeps_limits(card)
    last = card["entities"][-1]
    end = messages.marked_end(card["text"], last["type"], last["offset"], last["length"])
    assert messages.read_reference(end) == ("", OURS)
    outside = [each for each in live(card) if not any(each.strip("@/#") in name for _, name in mentioned)]
    assert outside == []


@given(decided_ones())
def test_a_retired_card_keeps_every_limit_and_cannot_be_pressed(approval):
    """R3: who and when, the id whole, no button; with any text as the reason or the answer."""
    card = messages.retired_message(approval, NOW, "https://example.org/inbox")
    keeps_limits(card)
    assert (codes(card), live(card), ID in card["text"]) == ([], [], True)


@given(approvals())
def test_a_press_means_what_was_offered(approval):
    """Render, press, read: the decision of the option at that place; a prompt for what needs words."""
    approval = replace(approval, id=OURS)
    for data in datas(messages.card_message(approval)):
        code, id_ = messages.read_data(data)
        assert id_ == OURS
        if code in FORMS:
            prompt = messages.prompt_message(code, approval, 1, ("5", "ana"))
            keeps_limits(prompt)
            last = prompt["entities"][-1]
            end = messages.marked_end(prompt["text"], last["type"], last["offset"], last["length"])
            assert messages.read_reference(end) == (code, OURS)
        else:
            decision, place = decision_of(code, approval, "ana"), code.partition(".")[2]
            if isinstance(decision, Approve):
                assert decision.pattern == approval.options[int(place)].pattern
            if isinstance(decision, Answer):
                assert decision.value == approval.choices[int(place)]


@given(st.text(max_size=300) | hostile)
@example("./\u00b9")
@example("`@ana")
@example("/ana#b/ @ana#b")
def test_a_text_of_an_agent_is_whole_and_is_no_reference(text):
    """It is sent as it was written; what Telegram would make of it is code; no line of it passes for one of ours."""
    for said in (f"x{text}", f"x{text}\n{OURS}", f"x{text}\nreply {OURS}", f"x{text}\nagent #5"):
        message = messages.said_message(said)
        assert message["text"] == said
        assert live(message) == []
        for last in message["entities"][-1:]:
            end = messages.marked_end(said, last["type"], last["offset"], last["length"])
            assert (messages.read_reference(end), messages.read_byline(end)) == (None, None)


def test_a_text_full_of_traps_has_no_more_marks_than_telegram_takes():
    """Telegram ignores the marks after the hundredth."""
    message = messages.said_message("@ana " * 300)
    assert (len(message["entities"]), live(message)) == (1, [])


def test_a_card_that_is_cut_has_no_button_that_says_yes():
    """A11: it shows both ends, says how much is missing, and where all of it is."""
    for arguments in ({"command": f"{'echo a; ' * 500}{EVIL}"}, BURIED):
        asked = call(arguments)
        card = messages.card_message(replace(asked, id=OURS), "https://inbox.example/")
        assert codes(card)[-2:] == ["deny", "explain"]
        assert not any(code.startswith("approve") for code in codes(card))
        assert PAGE.replace(ID, OURS) in card["text"]
        assert not is_whole(asked, messages.shown_facts(asked))
    assert EVIL in messages.card_message(call({"command": f"{'a ' * 3000}{EVIL}"}))["text"]


def test_a_choice_that_does_not_fit_on_its_button_stands_on_the_card():
    """Who presses a choice has read it; with too many choices for buttons it is written."""
    asked = replace(question(["yes " * 100, "no"]), id=OURS)
    card = messages.card_message(asked)
    assert ("choose.0" in codes(card), ("yes " * 100).strip() in card["text"]) == (True, True)
    many = messages.card_message(replace(question([str(number) for number in range(200)]), id=OURS))
    assert codes(many) == ["reply", "explain"]


def test_a_card_is_the_same_at_any_time():
    """Telegram says whether an edit changes anything; an age on the card would change each time."""
    assert messages.card_message(call({})) == messages.card_message(call({}))
    assert "ago" not in messages.card_message(call({}))["text"]


def test_a_card_names_no_button_that_it_does_not_have_yet():
    """A10: Telegram may put off the edit that brings the buttons. Until then the card says that they follow."""
    options = (Option("once"), Option("always", "ls *"))
    asked = replace(call({"command": "ls"}), id=OURS, options=options)
    opened, unopened = messages.card_message(asked), messages.card_message(asked, is_open=False)
    assert (len(codes(opened)) > 2, codes(unopened)) == (True, [])
    named = [button.label for button in buttons_of(asked) if button.grants]
    assert [label in opened["text"] for label in named] == [True] * len(named)
    assert [label in unopened["text"] for label in named] == [False] * len(named)
    assert ("buttons follow" in unopened["text"], "buttons follow" in opened["text"]) == (True, False)
