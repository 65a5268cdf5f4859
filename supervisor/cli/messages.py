"""`supervisor send`: say something to a session, whether or not another process runs its tree.

Chat words (A12) decide: `yes ID`, `no ID`, `approve all`, and a bare `yes` where one thing waits and a card of it was
shown.

Exit codes: 0 said, whatever becomes of it, or decided; 3 a word that does not say which of those that wait it means;
4 it was decided otherwise; 2 it could never be heard (a sub-agent that has ended, an agent that takes
no text, an import without an agent); 5 no such session; 6 refused. From inside a supervised call it is refused: it
would look like a person's word (A4).
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from supervisor.channels.cards import headline, heard_lines, summary
from supervisor.channels.replies import send_text
from supervisor.cli import answers
from supervisor.cli.answers import say
from supervisor.cli.exits import Exit
from supervisor.cli.options import ANYWHERE, AnyPlace, JsonOption
from supervisor.core.documents import chat_document
from supervisor.core.errors import InvalidInput
from supervisor.core.values import SendResult
from supervisor.core.visible import visible
from supervisor.core.words import ChatResult

if TYPE_CHECKING:
    from supervisor.core.values import SessionView


def send(
    session: str,
    text: str,
    /,
    *,
    by: Annotated[str | None, Parameter(name="--by", help="Who says it. Default: login name.")] = None,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Say something to a session: it is received, kept until it can be, or begins a turn.

    `yes ID`, `no ID` and `approve all` decide what waits in it, as the whole text.

    Parameters
    ----------
    session
        The session's id.
    text
        What to say, as one argument.
    """
    import anyio

    place.check_by(by)
    if not text.strip():
        raise InvalidInput("there is nothing to say: give the text as one argument")
    heard, view = anyio.run(_hear, place, session, text, by)
    receipt = heard.sent
    if json:
        answers.print_json(chat_document(heard) if receipt is None else answers.send_document(receipt))
    elif receipt is not None:
        _report(receipt, view, place)
    else:
        print("\n".join(heard_lines(heard, datetime.now().astimezone())))
        if any(not result.running and result.kind != "unknown" for result in heard.results):
            answers.say_kept(view.root, place.option)
    return _exit_of(heard)


def _exit_of(heard: ChatResult) -> Exit:
    """Return what a script wants to know: done, or what stands in the way."""
    if any(result.kind == "unknown" for result in heard.results):
        return Exit.NOT_FOUND
    if heard.kind == "listed":
        return Exit.WAITING
    return Exit.DONE if all(result.is_accepted for result in heard.results) else Exit.CONFLICT


async def _hear(place: AnyPlace, session: str, text: str, by: str | None) -> "tuple[ChatResult, SessionView]":
    from supervisor.cli.reading import get_session

    async with place.open(wanted=("session", session), action="sending") as supervisor:
        await get_session(supervisor, session)
        who = place.name_of(by, supervisor)
        heard = await supervisor.chat(session, text, by=who, shown_before=datetime.now(UTC))
        return heard, await supervisor.get_session(session)


def _report(receipt: SendResult, view: "SessionView", place: AnyPlace) -> None:
    became = send_text(receipt, is_sub_agent=view.parent is not None)
    print(f"{visible(view.path[-1])} [{view.id}] {became}")
    if receipt.waiting_for:
        say("It waits for a person first:")
        for approval in receipt.waiting_for:
            say(f"  {approval.id}  {headline(approval)}: {summary(approval)}")
        say(answers.ways_to_decide(receipt.waiting_for, place.option))
    if not receipt.running:
        answers.say_kept(view.root, place.option)
