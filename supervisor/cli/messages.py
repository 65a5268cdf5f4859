"""`supervisor send`: send a message to a session, whether or not a process runs its tree.

Chat commands (A12) decide instead: `yes ID`, `no ID`, `approve all`, and a bare `yes` if one approval waits and its
card was shown.

Exit codes: 0 sent, or decided; 3 a chat command that fits several approvals; 4 it was already decided otherwise; 2 the
session can never receive the message (a sub-agent that has ended, an agent that takes no text, an import without an
agent); 5 no such session; 6 refused. A process that a supervised call started is refused, since its message would
look like a person's (A4).
"""

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from supervisor.channels.chat.replies import send_text
from supervisor.channels.wording.cards import headline, heard_lines, summary
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import AS_ME, AnyPlace, JsonOption, PersonPlace, SessionId
from supervisor.cli.reading import get_session
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.documents import chat_document, send_document
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import visible
from supervisor.core.values import SendResult, SessionView
from supervisor.seam.supervisor import Supervisor


def send(
    session: SessionId,
    text: str,
    /,
    *,
    message: Annotated[
        str | None, Parameter(name="--message", help="An id of yours: the same message again under it arrives once.")
    ] = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Send a message to a session. The session receives it now, keeps it until it can, or begins a turn with it.

    A text that is `yes ID`, `no ID` or `approve all` decides what waits in the session instead.

    Parameters
    ----------
    text
        The message, as one argument.
    """
    if not text.strip():
        raise InvalidInput("the message is empty: give it as one argument")

    async def hear(supervisor: Supervisor, who: str) -> tuple[ChatResult, SessionView]:
        view = await get_session(supervisor, session, place)  # of this, only what never changes is printed
        now = datetime.now(UTC)
        return await supervisor.chat(session, text, by=who, shown_before=now, message=message), view

    heard, view = place.give("sending", hear, wanted=("session", session))
    receipt = heard.sent
    if json:
        answers.print_json(chat_document(heard) if receipt is None else send_document(receipt))
    elif receipt is not None:
        _report(receipt, view, place)
    else:
        print("\n".join(heard_lines(heard, datetime.now().astimezone())))
        if any(not result.running and result.kind != "unknown" for result in heard.results):
            answers.say_kept(view.path[0], view.root, place)
    return _exit_of(heard)


def _exit_of(heard: ChatResult) -> Exit:
    """Return the exit code that the module describes."""
    if any(result.kind == "unknown" for result in heard.results):
        return Exit.NOT_FOUND
    if heard.kind == "listed":
        return Exit.WAITING
    is_done = all(result.is_accepted or result.kind == "counted" for result in heard.results)
    return Exit.DONE if is_done else Exit.CONFLICT


def _report(receipt: SendResult, view: SessionView, place: AnyPlace) -> None:
    became = send_text(receipt, is_sub_agent=view.parent is not None)
    print(f"{visible(view.path[-1])} [{view.id}] {became}")
    if receipt.waiting_for:
        say_on_stderr("It waits for a person first:")
        for approval in receipt.waiting_for:
            say_on_stderr(f"  {approval.id}  {headline(approval)}: {summary(approval)}")
        say_on_stderr(answers.ways_to_decide(receipt.waiting_for, place.option))
    if not receipt.running:
        answers.say_kept(view.path[0], view.root, place)
