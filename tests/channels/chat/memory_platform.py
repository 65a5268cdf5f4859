"""A chat platform of another author, in memory: as small as a platform can be, with or without forms and search."""

import itertools
from datetime import UTC, datetime

import anyio

from supervisor.channels.sdk import (
    CARD,
    FILL,
    WRITING,
    Chat,
    Drawn,
    Fill,
    Limits,
    Place,
    Platform,
    Refused,
    Seen,
    buttons_of,
    decided,
    draw,
    fact_lines,
    fit_facts,
    form_of,
    headline,
    make_card,
    shown_whole,
    still_waits,
    unseen_buttons,
)
from supervisor.testing import CardSeen, PlatformBench

FAILURES = {"429": ConnectionRefusedError, "500": OSError, "refused": ConnectionRefusedError, "revoked": Refused}


class Board:
    """What stands on the platform. `fails`: how, from now on; `refuses`: a meaning of a refusal, by place."""

    def __init__(self):
        self.messages, self.numbers, self.told = {}, itertools.count(1), []
        self.fails, self.refuses, self.calls = None, {}, []

    async def asked(self, verb, place):
        self.calls.append((verb, place))
        if self.fails in FAILURES:
            raise FAILURES[self.fails](self.fails)
        if self.fails == "slow":
            await anyio.sleep(1.0)
        if place in self.refuses:
            error = Refused(f"the board refuses {verb}")
            error.meaning = self.refuses[place]
            raise error

    def done(self):
        if self.fails == "lost":
            raise OSError("the answer was lost")


class MemoryPlatform(Platform):
    limits = Limits(title="Memory", list_units=2000, reopens=True)

    def __init__(self, board):
        self.board = board

    def draw(self, face, approval, *, link, mentioned=(), card="", others=()):
        facts, unseen = fit_facts(draw(make_card(approval, approval.created_at).facts), 3000)
        lines = {
            "card": [fact_lines(facts)],
            "reminder": [still_waits(approval, *others)],
            "retired": [decided(approval, None)],
        }
        buttons = [] if face != "card" else unseen_buttons(buttons_of(approval)) if unseen else buttons_of(approval)
        codes, marks = [each.code for each in buttons], [f"{CARD}{approval.id}"]
        reminder = f"reminder:{approval.id}:{approval.reminded_at}"
        if face == "reminder":
            marks = [reminder]
        text = "\n".join([headline(approval), *lines.get(face, ())])
        return Drawn({"text": text, "codes": codes, "marks": marks, "approval": approval.id}, reminder)

    def shows(self, approval):
        return shown_whole(approval, fit_facts(draw(make_card(approval, approval.created_at).facts), 3000)[0], 80)

    async def write(self, place, content, once="", below=""):
        await self.board.asked("write", place.conversation)
        message = next(self.board.numbers)
        self.board.messages[f"{place.conversation}:{message}"] = {**content, "at": datetime.now(UTC)}
        self.board.done()
        return f"{place.conversation}:{message}"

    async def edit(self, card, content):
        await self.board.asked("edit", card.partition(":")[0])
        if card not in self.board.messages:
            error = Refused("there is no such message")
            error.meaning = "gone"
            raise error
        self.board.messages[card] |= content
        self.board.done()

    async def find(self, place, since, until):
        await self.board.asked("find", place.conversation)
        for card, message in list(self.board.messages.items()):
            conversation, _, id_ = card.partition(":")
            is_late = int(id_) >= int(since) if isinstance(since, str) else since <= message["at"]
            if conversation == place.conversation and is_late and message["at"] <= until:
                yield Seen(id_, message["marks"])

    async def reopen(self, place):
        self.board.calls.append(("reopen", place.conversation))
        del self.board.refuses[place.conversation]

    def place(self, text):
        return Place(text)

    def read(self, payload):
        return payload

    async def whisper(self, act, answer):
        self.board.told.append(answer.text)

    async def form(self, press, approval, link):
        form_of(press.code, approval)

    def make_chat(self, serving):
        return MemoryChat(self.board)


class MemoryChat(Chat):
    name, room, can_edit = "memory", 4000, True

    def __init__(self, board):
        self.board = board

    def holds(self, session):
        return session.startswith("memory-")

    async def say(self, piece):
        self._put(piece, next(self.board.numbers))

    def _put(self, piece, number):
        mark = f"{WRITING}:{number}" if piece.mark == WRITING else piece.mark
        self.board.messages[f"{piece.session}:{number}"] = {"text": piece.text, "marks": [mark]}
        return str(number)

    async def find_said(self, session):
        said = (each["marks"] for card, each in self.board.messages.items() if card.startswith(session))
        return {mark for marks in said for mark in marks}

    async def show_writing(self, piece, message):
        is_there = f"{piece.session}:{message}" in self.board.messages
        return self._put(piece, message if is_there else next(self.board.numbers))

    async def remove_writing(self, session, message):
        self.board.messages.pop(f"{session}:{message}", None)


class Questions:
    """How texts are asked for, where there are no forms."""

    def fits_data(self, approval):
        return True

    def prompt_message(self, code, approval, message, person, link):
        return asks(approval, form_of(code, approval).label)

    def field_message(self, prompt, part, token, approval, person):
        return asks(approval, prompt.label, f"{FILL}{token}.{Fill.JSON}", f"{FILL}{token}.{Fill.LEAVE}")

    def filled_message(self, shown, problems, token, code, approval, person):
        return asks(approval, shown, f"{FILL}{token}.{Fill.SEND}")

    def left_message(self, text):
        return {"text": text, "codes": [], "marks": [], "approval": ""}


def asks(approval, text, *codes):
    return {"text": text, "codes": codes, "marks": ["question"], "approval": approval.id}


class BarePlatform(MemoryPlatform):
    """One without forms, whose messages cannot be read."""

    limits = Limits(title="Bare", list_units=2000, searches=False)
    questions = Questions()


class MemoryBench(PlatformBench):
    name, session, platform = "memory", "memory-1", MemoryPlatform

    def __init__(self):
        self.board = Board()

    def make_platform(self):
        return self.platform(self.board)

    def _seen(self, is_seen):
        return [
            CardSeen(card=card, approval=each["approval"], text=each["text"], codes=tuple(each["codes"]))
            for card, each in self.board.messages.items()
            if "approval" in each and is_seen(each)
        ]

    def cards(self):
        return self._seen(lambda each: any(mark.startswith(CARD) for mark in each["marks"]))

    def questions(self):
        return self._seen(lambda each: "question" in each["marks"])

    def said(self):
        return [each["text"] for card, each in self.board.messages.items() if card.startswith(self.session)]

    def fail(self, how):
        self.board.fails = how


class BareBench(MemoryBench):
    """A card that was not recorded stays as a text without buttons."""

    name, platform = "bare", BarePlatform
    cannot = dict.fromkeys(("killed before record", "slow", "lost"), "its messages cannot be found")
