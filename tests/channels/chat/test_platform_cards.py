"""Any approval renders within every limit of both platforms, and what is pressed on it means what was offered."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from supervisor import Answer, Approval, Approve, Deny, InvalidInput, Option
from supervisor.channels.chat.presses import FORMS, buttons_of, decision_of, form_of
from supervisor.channels.discord import components, interactions
from supervisor.channels.slack import blocks, payloads
from supervisor.channels.telegram import messages
from supervisor.channels.wording.cards import card_lines, decided, make_card, still_waits
from supervisor.channels.wording.lengths import fit, length
from supervisor.core.ids import new_approval_id

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
ID = "0123456789abcdefghij" * 4
"""As long as an approval's id may be (A2)."""

hostile = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["<!channel>", "```\nrm -rf /", "@everyone", "*_~|>#", "\u202e", "x" * 5000, "`" * 300, ""]),
)
values = st.recursive(
    hostile | st.integers() | st.none() | st.booleans(), lambda x: st.lists(x, max_size=3), max_leaves=5
)
options = st.lists(
    st.builds(Option, st.sampled_from(["once", "session", "always"]), st.none() | hostile), min_size=1, max_size=6
)


@st.composite
def approvals(draw):
    is_question = draw(st.booleans())
    asked = {
        "kind": "question",
        "question": draw(hostile),
        "choices": draw(st.none() | st.lists(hostile, min_size=1).map(tuple)),
    }
    called = {
        "tool": draw(hostile),
        "arguments": draw(st.dictionaries(hostile, values, max_size=40)),
        "options": tuple(draw(options)),
    }
    common = {"tool": "", "arguments": None, "options": ()}
    return Approval(
        id=ID,
        session="s" * 22,
        root_session="r" * 22,
        path=tuple(draw(st.lists(hostile, min_size=1, max_size=4))),
        agent="a",
        operation="o",
        digest="d",
        cwd=draw(hostile),
        requester=draw(hostile),
        status="pending",
        created_at=NOW,
        **(common | (asked if is_question else called)),
    )


def texts_of(value, key=""):
    """Iterate over (key, text) of everything in a JSON document."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from texts_of(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each, key)
    elif isinstance(value, str):
        yield key, value


@given(approvals())
def test_a_slack_card_keeps_every_limit(approval):
    """Blocks, buttons, confirmations: nothing that Slack would refuse, and the id is there, whole."""
    card = blocks.card_blocks(approval, NOW, "https://example.org/inbox")
    assert len(card) <= 50
    for block in card:
        assert length(block.get("block_id", "")) <= 255
        match block["type"]:
            case "header":
                assert 0 < length(block["text"]["text"]) <= 150
            case "section":
                assert 0 < length(block["text"]["text"]) <= 3000
            case "actions":
                assert 0 < len(block["elements"]) <= 25
                for button in block["elements"]:
                    assert 0 < length(button["text"]["text"]) <= 75
                    assert length(button["action_id"]) <= 255
                    assert button["value"] == ID
                    assert length(button.get("confirm", {"text": {"text": ""}})["text"]["text"]) <= 300
    assert len(json.dumps(card)) < 40_000
    assert ID in json.dumps(card)
    assert len({b["action_id"] for block in card if block["type"] == "actions" for b in block["elements"]}) > 0


@given(approvals())
def test_a_discord_card_keeps_every_limit(approval):
    """Embeds, rows, custom ids: nothing that Discord would refuse, no block that hostile text could leave."""
    card = components.card_message(approval, NOW, "https://example.org/inbox")
    (embed,) = card["embeds"]
    assert 0 < length(embed["title"]) <= 256
    assert 0 < length(embed["description"]) <= 4096
    assert all(length(field["name"]) <= 256 and length(field["value"]) <= 1024 for field in embed["fields"])
    assert sum(length(text) for _, text in texts_of(embed)) <= 6000
    assert embed["description"].count("```") == 2
    assert all(field["value"].count("```") == 2 for field in embed["fields"])
    assert len(card["components"]) <= 5
    for row in card["components"]:
        assert 0 < len(row["components"]) <= 5
        for button in row["components"]:
            assert 0 < length(button["label"]) <= 80
            assert length(button["custom_id"]) <= 100
    assert card["allowed_mentions"] == {"parse": []}


@given(approvals())
def test_a_buttons_code_and_an_id_of_ours_fit_64_bytes(approval):
    """A2: the smallest payload that a platform gives back."""
    ours = new_approval_id("root")
    assert all(len(components.custom_id(press.code, ours).encode()) <= 64 for press in buttons_of(approval))


@st.composite
def decided_ones(draw):
    """What became of an approval, with whatever a person may have written to it."""
    approval = draw(approvals())
    ended = ["answered", "denied"] if approval.kind == "question" else ["approved", "denied"]
    scope = draw(st.sampled_from(["once", "session", "always"]))
    return msgspec.structs.replace(
        approval,
        status=draw(st.sampled_from([*ended, "expired", "withdrawn"])),
        by=draw(st.none() | hostile),
        reason=draw(st.none() | hostile),
        answer=draw(values),
        decided_at=NOW,
        scope=scope,
        rule=None if scope == "once" else "r1",
        pattern=draw(st.none() | hostile),
    )


@given(decided_ones())
def test_a_retired_card_keeps_every_limit_and_cannot_be_pressed(approval):
    """R3: who and when, the id whole, no button; with any text as the reason or the answer."""
    card = blocks.retired_blocks(approval)
    texts = [text for key, text in texts_of(card) if key == "text"]
    assert all(0 < length(text) <= 2000 for text in texts)
    assert ID in texts
    assert {block["type"] for block in card} == {"section", "rich_text", "context"}
    message = components.retired_message(approval)
    (embed,) = message["embeds"]
    assert (0 < length(embed["title"]) <= 256, 0 < length(embed["description"]) <= 4096) == (True, True)
    assert (embed["description"].count("```"), embed["footer"]["text"]) == (2, ID)
    assert sum(length(text) for _, text in texts_of(embed)) <= 6000
    assert (message["components"], message["allowed_mentions"]) == ([], {"parse": []})


@given(approvals())
def test_a_form_that_is_offered_keeps_every_limit(approval):
    """Titles, labels, what stands in the field, and what is given back: nothing that either platform would refuse."""
    place = {"conversation": "C" * 20, "message": "1" * 20}
    for press in blocks._that_fit(approval)[0]:
        if press.code in FORMS:
            view = blocks.form_view(press.code, approval, place)
            shown, *fields = view["blocks"]
            assert all(0 < length(view[part]["text"]) <= 24 for part in ("title", "submit", "close"))
            assert 0 < length(shown["text"]["text"]) <= 3000
            assert length(view["private_metadata"]) <= 3000
            assert 0 < len(fields) <= 99
            for field in fields:
                most = field["element"].get("max_length", 0)
                assert length(field["element"].get("initial_value", "")) <= most <= 3000
    for press in components._that_fit(approval)[0]:
        if press.code in FORMS:
            form = components.form_modal(press.code, approval)
            assert (0 < length(form["title"]) <= 45, 0 < len(form["components"]) <= 5) == (True, True)
            assert length(form["custom_id"]) <= 100
            for row in form["components"]:
                field = row["component"] if "component" in row else row["components"][0]
                assert 0 < length(row.get("label") or field["label"]) <= 45
                assert length(field.get("value", "")) <= field.get("max_length", 0) <= 4000


@pytest.mark.parametrize(
    "arguments", [{"command": "x\n" * 3000}, {"session": "`" * 9000}, {"a": "b" * 9000, "c": "``\n"}]
)
def test_a_long_call_leaves_room_for_where_and_for_whom(arguments):
    """A card is never approved without saying where it runs, who asks, since when; what is cut says so, with a link."""
    asked = call(arguments)
    slack = json.dumps(blocks.card_blocks(asked, NOW, "https://inbox.example"), ensure_ascii=False)
    discord = components.card_message(asked, NOW, "https://inbox.example")["embeds"][0]["description"]
    for card in (slack, discord):
        assert all(
            each in card
            for each in ("/srv/shop", "ana", str(int(NOW.timestamp())), "https://inbox.example", ID, SESSION)
        )
    assert length(slack) < 10_000


def test_choices_that_begin_alike_can_be_told_apart():
    """Platforms cut what stands on a button; with more choices than buttons it can still be declined."""
    asked = question([f"{'x' * 90} {end}" for end in ("staging", "production")])
    labels = [press.label for press in buttons_of(asked)]
    assert len({label[:60] for label in labels}) == len(labels) == 3
    many = question([str(number) for number in range(200)])
    for that_fit in (blocks._that_fit, components._that_fit):
        assert [press.code for press in that_fit(many)[0]] == ["reply", "explain"]


SESSION = "abcdefghijklmnopqrstuv"


def call(arguments):
    return asking(tool="t", arguments=arguments, options=(Option("once"),))


def question(choices):
    return asking(kind="question", tool="", question="Where?", choices=tuple(choices), arguments=None, options=())


def asking(**how):
    common = {"id": ID, "session": SESSION, "root_session": SESSION, "path": ("a",), "agent": "a", "operation": "o"}
    common |= {"digest": "d", "cwd": "/srv/shop", "requester": "ana", "status": "pending", "created_at": NOW}
    return Approval(**common, **how)


@given(approvals())
def test_a_press_means_what_was_offered_on_both(approval):
    """Render, press, parse: the same decision, and a form for what needs words."""
    for press in buttons_of(approval):
        slack = payloads.read(slack_press(blocks._button(press, approval.id), approval.id))
        discord = interactions.read(
            {
                "type": 3,
                "token": "t",
                "member": {"user": {"id": "u"}},
                "data": {"custom_id": components.custom_id(press.code, approval.id)},
            }
        )
        assert (slack.code, slack.approval) == (discord.code, discord.approval) == (press.code, approval.id)
        if press.code in FORMS:
            form_of(press.code, approval)
        else:
            decision = decision_of(slack.code, approval, "ana")
            assert decision == meant(press.code, approval)


def meant(code, approval):
    verb, _, place = code.partition(".")
    match verb:
        case "approve":
            option = approval.options[int(place)]
            return Approve(by="ana", scope=option.scope, pattern=option.pattern)
        case "choose":
            return Answer(by="ana", value=approval.choices[int(place)])
        case _:
            return Deny(by="ana")


def slack_press(button, approval):
    return {
        "type": "block_actions",
        "user": {"id": "U"},
        "channel": {"id": "C"},
        "container": {"message_ts": "1"},
        "trigger_id": "t",
        "actions": [{**button, "block_id": blocks.block_id(approval)}],
    }


@given(approvals(), st.text(max_size=20))
def test_no_forged_code_decides_what_was_not_offered(approval, code):
    """Whatever comes back from a platform: a decision among those offered, or a refusal."""
    for forged in (code, f"approve.{code}", "approve.99", "choose.-1", "choose.99", "approve.+0", "approve.\u0660"):
        try:
            decision = decision_of(forged, approval, "ana", None)
        except InvalidInput:
            continue
        if isinstance(decision, Approve):
            assert Option(decision.scope, decision.pattern) in approval.options
        if isinstance(decision, Answer):
            assert approval.choices is None or decision.value in approval.choices


@pytest.mark.parametrize("place", ["\u0660", "\u00b2", "+0", "-0", " 0", "0x0", "1", "", "0.0"])
def test_a_place_is_written_as_this_program_writes_it(place):
    """Digits of other scripts are no places; nor is what int() would read."""
    with pytest.raises(InvalidInput):
        decision_of(f"approve.{place}", call({}), "ana")


@given(st.text(alphabet=st.characters(), max_size=300), st.integers(2, 200))
def test_a_text_that_is_cut_fits(text, limit):
    """The limit holds in UTF-16 units, also for what lies outside the basic plane."""
    assert length(fit(text, limit)) <= limit
    assert fit(text, limit) == text or length(text) > limit


@pytest.mark.parametrize("noise", [{}, {"type": "block_actions"}, {"type": 3}, {"type": "event_callback", "event": {}}])
def test_noise_is_nothing(noise):
    """What Slack and Discord may send one day is none of ours."""
    assert payloads.read(noise) is None
    assert interactions.read(noise) is None
    assert msgspec.json.encode(noise)


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "[1]", "{", "\udc80"])
def test_arguments_that_are_no_object_decide_nothing(text):
    """A8: what cannot be read is refused in words, however deep it is nested."""
    with pytest.raises(InvalidInput):
        decision_of("edit", call({}), "ana", text)


def test_a_card_shows_instants_that_stay_true():
    """Each reader sees them in their own time zone, however long the card stands; an argument keeps its text."""
    hours = timedelta(hours=1)
    asked = msgspec.structs.replace(call({"since": "12:00:00 (0 s ago)"}), created_at=NOW, expires_at=NOW + hours)
    on_slack, (on_discord,) = blocks.card_blocks(asked, NOW), components.card_message(asked, NOW)["embeds"]
    dates = [part for block in on_slack for part in parts_of(block) if part.get("type") == "date"]
    assert [date["timestamp"] for date in dates] == [int(NOW.timestamp()), int((NOW + hours).timestamp())]
    assert on_discord["description"].endswith(
        f"since <t:{int(NOW.timestamp())}:f> (<t:{int(NOW.timestamp())}:R>), "
        f"expires <t:{int(NOW.timestamp()) + 3600}:f> (<t:{int(NOW.timestamp()) + 3600}:R>)"
    )
    assert json.dumps(on_slack).count("s ago") == on_discord["description"].count("s ago") == 1
    ended = msgspec.structs.replace(asked, status="denied", by="ana", decided_at=NOW + hours)
    (retired,) = components.retired_message(ended)["embeds"]
    dates = [part for block in blocks.retired_blocks(ended) for part in parts_of(block) if part.get("type") == "date"]
    assert ([date["timestamp"] for date in dates], retired["timestamp"]) == (
        [int((NOW + hours).timestamp())],
        (NOW + hours).isoformat(),
    )


def parts_of(value):
    """Iterate over the objects of a JSON document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from parts_of(each)


def test_no_surface_marks_a_mark():
    """A text is made visible once: the brackets of marks are marked in what an agent wrote, never in what we drew."""
    nasty = "a\u202eb\x1b[2J \u05d0 \u05d1"
    schema = {"type": "object", "properties": {nasty: {"type": "string", "description": nasty, "enum": [nasty]}}}
    common = {"path": (nasty, nasty), "requester": nasty, "cwd": nasty, "reason": nasty, "by": nasty}
    asked = [
        replace(call({"command": nasty, nasty: nasty, "list": [nasty, f"{nasty}c"]}), tool=nasty, **common),
        replace(question(()), choices=None, question=nasty, schema=schema, **common),
        replace(question((nasty, "b")), question=nasty, **common),
    ]
    drawn = []
    for each in (*asked, *(replace(each, status="denied", decided_at=NOW) for each in asked)):
        drawn += [
            blocks.card_blocks(each, NOW, None),
            blocks.retired_blocks(each, None),
            components.retired_message(each),
        ]
        drawn += [components.card_message(each, NOW, None), messages.card_message(each, None, ()), still_waits(each)]
        drawn += [messages.retired_message(each, NOW), card_lines(make_card(each, NOW), {}), decided(each, NOW)]
    text = json.dumps(drawn, ensure_ascii=False)
    assert "⟨U+202E⟩" in text
    assert "27E8" not in text
