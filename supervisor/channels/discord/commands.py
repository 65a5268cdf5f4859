"""Discord's slash commands: their table, which `supervisor discord register` registers, and what they do.

Only the person who used a command sees its answer, except for what they say to a session.
"""

from typing import Any, Final

from supervisor.channels.chat.acts import Answer
from supervisor.channels.chat.verbs import Serving
from supervisor.channels.discord import interactions
from supervisor.channels.discord.components import CONTENT, code_block
from supervisor.channels.discord.interactions import SlashCommand
from supervisor.channels.discord.rest import DiscordRefused, DiscordRest
from supervisor.channels.discord.talk import DiscordChat, incoming_of
from supervisor.core.approvals.chat_words import read_word
from supervisor.core.errors import NotFound
from supervisor.core.text.visible import visible


def _text(name: str, description: str, *, required: bool = True) -> dict[str, Any]:
    return {"name": name, "description": description, "type": 3, "required": required}


def _command(name: str, description: str, *options: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "type": 1, **({"options": list(options)} if options else {})}


_ID: Final = _text("id", "The approval's id")
COMMANDS: Final = (
    _command("pending", "List the approvals that wait for a person"),
    _command("approve", "Approve one call, once", _ID),
    _command(
        "deny",
        "Deny one call; the agent is told and goes on",
        _ID,
        _text("reason", "The reason, for the agent", required=False),
    ),
    _command(
        "ack",
        "Say that you are on what waits: no reminder of it for half an hour",
        _text("id", "Only this approval", required=False),
    ),
    _command("snooze", "Hear nothing of what waits now for a while; others do", _text("text", "30m, 2h, or 07:00")),
    _command("start", "Start the agent in a new thread", _text("text", "What it is to do")),
    _command(
        "say",
        "Write to the session of this thread, answer its question, or say yes or no",
        _text("text", "The message"),
    ),
    _command(
        "stop",
        "Cancel the session of this thread, and everything that it has started",
        _text("id", "The id of another session", required=False),
    ),
    _command(
        "answer",
        "Answer an agent's question",
        _text("id", "The question's id"),
        _text("text", "The answer, in the form that the question asks for"),
    ),
)
_NO_AGENT: Final = Answer("This supervisor has no agent to talk to in Discord. You can decide its cards here.")


async def run_command(command: SlashCommand, chat: DiscordChat, serving: Serving) -> Answer | None:
    """Do what /start or /say says, and return its answer; None for another command. Raises StoreError, TreeOwned,
    DiscordRefused, OSError."""
    match command.name:
        case "start":
            return await _start(command, chat, serving)
        case "say":
            return await _say(command, serving)
        case _:
            return None


async def _start(command: SlashCommand, chat: DiscordChat, serving: Serving) -> Answer:
    person = serving.answering.find_person(command.user)
    if isinstance(person, str):
        return Answer(person)
    if serving.conversations is None:
        return _NO_AGENT
    text = command.options.get("text", "")
    if not text.strip() or read_word(text) is not None:
        return Answer("Nothing was started or decided: write what the agent is to do.")
    thread = command.id
    if serving.answering.why_not_start(person) is None:  # else the supervisor refuses: no thread
        try:
            thread = await chat.open_thread(serving.home.conversation, command.user, person.name, text)
        except (DiscordRefused, OSError) as error:
            return Answer(f"Not started, since no thread could be opened: {visible(str(error), kind='words')}")
    answer = await serving.conversations.hear(serving.supervisor, incoming_of(command, thread, begins=True))
    return Answer(payload=interactions.told(f"Here: <#{thread}>")) if answer is None else Answer(answer)


async def _say(command: SlashCommand, serving: Serving) -> Answer:
    if serving.conversations is None:
        return _NO_AGENT
    incoming = incoming_of(command, command.place, begins=False)
    try:
        await serving.supervisor.get_session(incoming.session)
    except NotFound:
        return Answer("This is no thread of a session. /start begins one.")
    answer = await serving.conversations.hear(serving.supervisor, incoming)
    if answer is not None:
        return Answer(answer)
    return Answer(payload=interactions.said(code_block(visible(incoming.text, kind="prose", lines=True), CONTENT)))


async def register(rest: DiscordRest, application: str) -> int:
    """Register the slash commands with Discord; return their number. Other commands of the application stay. Raises
    DiscordRefused, OSError."""
    for command in COMMANDS:  # one that Discord knows by its name is replaced
        await rest.call("POST", f"/applications/{application}/commands", command)
    return len(COMMANDS)
