"""Discord's slash commands: their table, which `supervisor discord register` registers, and what they do.

Only the person who used a command sees its answer, except for what they say to a session.
"""

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from supervisor.channels.chat.answering import Answering
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.discord import interactions
from supervisor.channels.discord.components import CONTENT, code_block
from supervisor.channels.discord.interactions import Command, Payload
from supervisor.channels.discord.rest import DiscordRefused, DiscordRest
from supervisor.channels.discord.talk import DiscordChat, incoming_of, session_of
from supervisor.core.approvals.chat_words import read_word
from supervisor.core.approvals.people import People
from supervisor.core.errors import NotFound
from supervisor.core.text.visible import visible
from supervisor.seam.commands import LAWS, Start
from supervisor.seam.supervisor import Supervisor

COMMANDS: Final = (
    {"name": "pending", "description": "List the approvals that wait for a person", "type": 1},
    {
        "name": "approve",
        "description": "Approve one call, once",
        "type": 1,
        "options": [{"name": "id", "description": "The approval's id", "type": 3, "required": True}],
    },
    {
        "name": "deny",
        "description": "Deny one call; the agent is told and goes on",
        "type": 1,
        "options": [
            {"name": "id", "description": "The approval's id", "type": 3, "required": True},
            {"name": "reason", "description": "The reason, for the agent", "type": 3, "required": False},
        ],
    },
    {
        "name": "start",
        "description": "Start the agent in a new thread",
        "type": 1,
        "options": [{"name": "text", "description": "What it is to do", "type": 3, "required": True}],
    },
    {
        "name": "say",
        "description": "Write to the session of this thread, answer its question, or say yes or no",
        "type": 1,
        "options": [{"name": "text", "description": "The message", "type": 3, "required": True}],
    },
    {
        "name": "stop",
        "description": "Cancel the session of this thread, and everything that it has started",
        "type": 1,
        "options": [{"name": "id", "description": "The id of another session", "type": 3, "required": False}],
    },
    {
        "name": "answer",
        "description": "Answer an agent's question",
        "type": 1,
        "options": [
            {"name": "id", "description": "The question's id", "type": 3, "required": True},
            {
                "name": "text",
                "description": "The answer, in the form that the question asks for",
                "type": 3,
                "required": True,
            },
        ],
    },
)
_NO_AGENT: Final = "This supervisor has no agent to talk to in Discord. You can decide its cards here."


def told(text: str) -> Payload:
    """Return an answer, made visible before, that only the person who acted sees. Outside a code block, an agent's text
    could make links."""
    return interactions.told(code_block(text, CONTENT))


class Commands:
    """Does what slash commands say. `conversations`: None without an agent; `conversation`: where threads begin."""

    def __init__(
        self,
        chat: DiscordChat,
        conversations: Conversations | None,
        answering: Answering,
        people: People,
        conversation: str,
    ) -> None:
        self._chat = chat
        self._conversations = conversations
        self._answering = answering
        self._people = people
        self._conversation = conversation

    async def run(self, supervisor: Supervisor, command: Command, now: datetime) -> Payload:
        """Do what a command says, and return its answer. Raises StoreError, TreeOwned, DiscordRefused, OSError."""
        match command.name:
            case "start":
                return await self._start(supervisor, command)
            case "say":
                return await self._say(supervisor, command)
            case "stop" if "id" not in command.options:
                command = replace(command, options={"id": session_of(command.place)})
        said = " ".join([command.name, *(command.options.get(name, "") for name in ("id", "text", "reason"))])
        return told(await self._answering.say(supervisor, said, command.user, now, CONTENT - 100))

    async def _start(self, supervisor: Supervisor, command: Command) -> Payload:
        person = self._answering.find_person(command.user)
        if isinstance(person, str):
            return told(person)
        if self._conversations is None:
            return told(_NO_AGENT)
        text = command.options.get("text", "")
        if not text.strip() or read_word(text) is not None:
            return told("Nothing was started or decided: write what the agent is to do.")
        thread = command.id
        may_not = self._people.why_not_command(person.name, LAWS[Start].audit)
        if may_not is None:  # else the supervisor refuses: no thread
            try:
                thread = await self._chat.open_thread(self._conversation, command.user, person.name, text)
            except (DiscordRefused, OSError) as error:
                return told(f"Not started, since no thread could be opened: {visible(str(error), kind='words')}")
        answer = await self._conversations.hear(supervisor, incoming_of(command, thread, begins=True))
        return interactions.told(f"Here: <#{thread}>") if answer is None else told(answer)

    async def _say(self, supervisor: Supervisor, command: Command) -> Payload:
        if self._conversations is None:
            return told(_NO_AGENT)
        incoming = incoming_of(command, command.place, begins=False)
        try:
            await supervisor.get_session(incoming.session)
        except NotFound:
            return told("This is no thread of a session. /start begins one.")
        answer = await self._conversations.hear(supervisor, incoming)
        if answer is not None:
            return told(answer)
        return interactions.said(code_block(visible(incoming.text, kind="prose", lines=True), CONTENT))


async def register(rest: DiscordRest, application: str) -> int:
    """Register the slash commands with Discord; return their number. Other commands of the application stay. Raises
    DiscordRefused, OSError."""
    for command in COMMANDS:  # one that Discord knows by its name is replaced
        await rest.call("POST", f"/applications/{application}/commands", command)
    return len(COMMANDS)
