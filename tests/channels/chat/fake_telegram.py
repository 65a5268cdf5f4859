"""A small Telegram of our own: chats, updates with long polling, and the rules by which Telegram refuses a request.

Each request is held against aiogram's models of the Bot API's methods, and each update against its model of updates. A
field that the models do not know is an error.
"""

import itertools
import json
import re
import threading
import time
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

from platform_server import served
from pydantic import BaseModel

TOKEN = "4242:an-abc_secret"
BOT = {"id": 4242, "is_bot": True, "first_name": "Supervisor", "username": "supervisor_bot"}
GROUP = -1001234
NAMES = {"answerCallbackQuery", "editMessageText", "getChat", "getMe", "getUpdates", "getWebhookInfo", "sendChatAction"}
NAMES |= {"sendMessage", "setMessageReaction", "deleteMessage"}
FOUND = re.compile(r"(?<![\w`])@\w+|(?<![\w/<>])/\w+(?![\w/<>])|(?<!\w)#\w+")
"""What Telegram makes of a text by itself: mentions, commands, tags."""


class FakeTelegram:
    """`messages`: (chat, id) -> message. `alerts`: (user, text) of each answer to a press. `calls`: methods."""

    def __init__(self):
        models()  # before its server has threads
        self.messages = {}
        self.alerts = []
        self.actions = []
        self.calls = []
        self.wrong = []  # requests that the models do not take
        self.updates = []
        self.refusals = {}  # method -> (code, description)
        self.taken = lambda method, when: None  # told "before" and "after" it does what it is asked
        self.limited = 0  # how many of the next posts are answered with 429
        self.unwell = 0  # how many of the next posts are done, and then answered with 502 and a page
        self.out = None  # (status, body) with which everything is answered: nothing is done
        self.token = TOKEN
        self.webhook = ""
        self.url = ""
        self._ids = itertools.count(100)
        self._update_ids = itertools.count(7000)
        self._queries = {}
        self._polls = 0
        self._lock = threading.Condition()

    # -- what the bot asks -------------------------------------------------------------------------------------------

    def answer(self, method, arguments):
        """Return status and body."""
        self.calls.append(method)
        if method in self.refusals:
            return refused(*self.refusals[method])
        if self.limited and method in ("sendMessage", "editMessageText"):
            self.limited -= 1
            return 429, {
                "ok": False,
                "error_code": 429,
                "description": "Too Many Requests: retry after 1",
                "parameters": {"retry_after": 1},
            }
        self.taken(method, "before")
        try:
            self._check(method, arguments)
            answer = getattr(self, method)(**arguments)
        except Refused as error:
            return refused(*error.args)
        self.taken(method, "after")
        return 200, {"ok": True, "result": answer}

    def _check(self, method, arguments):
        """Hold a request against aiogram's model of the method."""
        try:
            assert method in NAMES
            assert list(extras(models()[method].model_validate(arguments))) == []
        except (ValueError, AssertionError) as error:
            self.wrong.append(f"{method} {arguments}: {error}")
            raise Refused(400, f"Bad Request: {error}") from None

    def getMe(self):  # noqa: N802 # Telegram's name
        return BOT | {"can_join_groups": True, "can_read_all_group_messages": False, "supports_inline_queries": False}

    def getWebhookInfo(self):  # noqa: N802 # Telegram's name
        return {"url": self.webhook, "has_custom_certificate": False, "pending_update_count": len(self.updates)}

    def getChat(self, chat_id):  # noqa: N802 # Telegram's name
        return {"id": chat_id, "type": "supergroup", "title": "Ops", "accent_color_id": 1, "max_reaction_count": 1}

    def getUpdates(self, timeout=0, offset=None, limit=100, allowed_updates=()):  # noqa: N802 # Telegram's name
        end = time.monotonic() + timeout
        with self._lock:
            self._polls += 1
            mine = self._polls
            self._lock.notify_all()
            if offset is not None:
                self.updates = [each for each in self.updates if each["update_id"] >= offset]
            while not self.updates and time.monotonic() < end:
                self._lock.wait(min(0.2, max(0.0, end - time.monotonic())))
                if self._polls != mine:
                    raise Refused(409, "Conflict: terminated by other getUpdates request; make sure that only one bot")
            return [each for each in self.updates if not allowed_updates or set(each) & set(allowed_updates)][:limit]

    def sendMessage(self, chat_id, text, reply_parameters=None, message_thread_id=0, **more):  # noqa: N802 # its name
        entities, reply_markup = more.get("entities", ()), more.get("reply_markup")
        self._check_text(text, entities, reply_markup)
        message = self._message(chat_id, BOT, text, entities)
        if message_thread_id:
            message |= {"message_thread_id": message_thread_id, "is_topic_message": True}
        if reply_markup and "inline_keyboard" in reply_markup:
            message["reply_markup"] = reply_markup
        if reply_parameters and (replied := self.messages.get((chat_id, reply_parameters["message_id"]))):
            message["reply_to_message"] = {k: v for k, v in replied.items() if k != "reply_to_message"}
        return message

    def editMessageText(self, chat_id, message_id, text, entities=(), reply_markup=None, **_):  # noqa: N802 # Telegram's name
        self._check_text(text, entities, reply_markup)
        message = self.messages.get((chat_id, message_id))
        if message is None or message["from"] != BOT:
            raise Refused(400, "Bad Request: message to edit not found")
        new = {"text": text, "entities": [*entities], "reply_markup": reply_markup or {"inline_keyboard": []}}
        if {**NO_MARKUP, **{name: message[name] for name in new if name in message}} == new:
            raise Refused(400, "Bad Request: message is not modified: specified new message content and reply markup")
        message |= new
        return message

    def deleteMessage(self, chat_id, message_id):  # noqa: N802 # Telegram's name
        if self.messages.get((chat_id, message_id), {}).get("from") != BOT:
            raise Refused(400, "Bad Request: message to delete not found")
        del self.messages[chat_id, message_id]
        return True

    def answerCallbackQuery(self, callback_query_id, text="", **_):  # noqa: N802 # Telegram's name
        if callback_query_id not in self._queries or len(text) > 200:
            raise Refused(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        self.alerts.append((self._queries.pop(callback_query_id), text))
        return True

    def sendChatAction(self, chat_id, action, **_):  # noqa: N802 # Telegram's name
        self.actions.append((chat_id, action))
        return True

    def setMessageReaction(self, chat_id, message_id, reaction, **_):  # noqa: N802 # Telegram's name
        self.messages[chat_id, message_id]["reaction"] = reaction
        return True

    def _check_text(self, text, entities, markup):
        units = len(text.encode("utf-16-le", "surrogatepass")) // 2
        if not 0 < units <= 4096 or not text.strip():
            raise Refused(400, "Bad Request: message is too long" if units else "Bad Request: message text is empty")
        for each in entities:
            assert 0 <= each["offset"] < each["offset"] + each["length"] <= units
        assert len(entities) <= 100
        for row in (markup or {}).get("inline_keyboard", ()):
            assert 0 < len(row) <= 8
            for button in row:
                if not 0 < len(button["callback_data"].encode()) <= 64:
                    raise Refused(400, "Bad Request: BUTTON_DATA_INVALID")

    def _message(self, chat, user, text, entities=()):
        kind = {"type": "supergroup", "title": "Ops"} if chat < 0 else {"type": "private", "first_name": "A"}
        message = {
            "message_id": next(self._ids),
            "date": int(time.time()),
            "chat": {"id": chat, **kind},
            "from": user,
            "text": text,
            "entities": [*entities],
        }
        self.messages[chat, message["message_id"]] = message
        return message

    # -- what people do ----------------------------------------------------------------------------------------------

    def press(self, message, code, user):
        """Press the button with this code on a message. Return the id of the query."""
        (data,) = [each for each in datas(message) if each.startswith(f"{code}:")]
        return self.press_forged(message, data, user)

    def press_forged(self, message, data, user):
        """Send data for a message, as a changed client can do."""
        query = str(next(self._ids))
        self._queries[query] = user
        self.push(callback_query={**callback(query, user, data), "message": message})
        return query

    def say(self, text, user, chat=GROUP, reply_to=None, **more):
        """Write a message."""
        message = self._message(chat, person(user), text) | more
        if reply_to is not None:
            message["reply_to_message"] = {k: v for k, v in reply_to.items() if k != "reply_to_message"}
        self.push(message=message)
        return message

    def push(self, **update):
        update = {"update_id": next(self._update_ids), **update}
        assert list(extras(models()["Update"].model_validate(update))) == []
        with self._lock:
            self.updates.append(update)
            self._lock.notify_all()

    def of_bot(self, chat=GROUP):
        return [each for (at, _), each in self.messages.items() if at == chat and each["from"] == BOT]

    def cards(self, chat=GROUP):
        """Return the messages with an approval's id at their end that are no replies, oldest first."""
        return [each for each in self.of_bot(chat) if ends_in_id(each) and "reply_to_message" not in each]

    @property
    def is_polled(self):
        return self._polls


@cache
def models():
    """Return aiogram's models of updates and of these methods, by name. It would build all of its models as it is
    imported, which takes seconds."""
    with patch.object(BaseModel, "model_rebuild", lambda *_, **__: None):
        from aiogram import methods, types
    found = {"Update": types.Update, **{name: getattr(methods, name[0].upper() + name[1:]) for name in NAMES}}
    for each in found.values():
        each.model_rebuild(_types_namespace={**vars(types), "List": list})
    return found


class Refused(Exception):
    """Code and description of a refusal."""


NO_MARKUP = {"reply_markup": {"inline_keyboard": []}}


def refused(code, description):
    return code, {"ok": False, "error_code": code, "description": description}


def extras(model):
    """Iterate over the fields that a model and the models in it do not know."""
    yield from model.model_extra or ()
    for name in type(model).model_fields:
        value = getattr(model, name)
        for each in value if isinstance(value, list) else [value]:
            for one in each if isinstance(each, list) else [each]:
                if isinstance(one, BaseModel):
                    yield from extras(one)


def person(user):
    return {"id": int(user), "is_bot": False, "first_name": f"Person {user}", "username": "ana"}


def callback(query, user, data):
    return {"id": query, "from": person(user), "chat_instance": "1", "data": data}


def datas(message):
    """Return the data of a message's buttons."""
    rows = message.get("reply_markup", {}).get("inline_keyboard", ())
    return [button["callback_data"] for row in rows for button in row]


def codes(message):
    return [data.partition(":")[0] for data in datas(message)]


def ends_in_id(message):
    return re.fullmatch(r"[a-z0-9]{16,80}", message["text"].rpartition("\n")[2]) is not None


def live(message):
    """Return what Telegram would make of a message's text by itself: what stands in no code."""
    raw = bytearray(message["text"].encode("utf-16-le", "surrogatepass"))
    for each in message.get("entities", ()):
        if each["type"] in ("code", "pre"):
            first, last = 2 * each["offset"], 2 * (each["offset"] + each["length"])
            raw[first:last] = b"`\0" * ((last - first) // 2)
    return FOUND.findall(raw.decode("utf-16-le", "replace"))


@contextmanager
def serving(telegram):
    """Serve it on loopback, at `telegram.url`."""

    def respond(asked):
        bot, _, method = asked.url.path[1:].partition("/")
        if telegram.out is not None:
            return *telegram.out, {}
        if bot != f"bot{telegram.token}":
            status, answer = refused(401, "Unauthorized")
        else:
            status, answer = telegram.answer(method, json.loads(asked.body or b"{}"))
            if telegram.unwell and method in ("sendMessage", "editMessageText"):
                telegram.unwell -= 1
                return 502, b"<html>Bad Gateway", {}
        return status, json.dumps(answer).encode(), {}

    with served(respond, keeps_connections=True) as telegram.url:
        try:
            yield telegram
        finally:
            assert telegram.wrong == [], telegram.wrong
