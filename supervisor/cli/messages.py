"""`supervisor send`: say something to a session, whether or not another process runs its tree.

Exit codes: 0 said, whatever becomes of it; 2 it could never be heard (a sub-agent that has ended, an agent that takes
no text, an import without an agent); 5 no such session; 6 refused. From inside a supervised call it is refused: it
would look like a person's word (A4).
"""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from supervisor.channels.cards import headline, summary, visible
from supervisor.cli import answers
from supervisor.cli.answers import say
from supervisor.cli.exits import Exit
from supervisor.cli.options import JsonOption, Place, StoreOption, find_store
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.values import Receipt

if TYPE_CHECKING:
    from supervisor.core.values import SessionView


def send(
    session: str,
    text: str,
    /,
    *,
    by: Annotated[str | None, Parameter(name="--by", help="Who says it. Default: login name.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Say something to a session: it is received, kept until it can be, or begins a turn.

    Parameters
    ----------
    session
        The session's id.
    text
        What to say, as one argument.
    """
    import anyio

    from supervisor.channels.terminal import login_name
    from supervisor.cli.inside import refuse_inside_call

    refuse_inside_call("sending")
    if not text.strip():
        raise InvalidInput("there is nothing to say: give the text as one argument")
    place = find_store(store)
    if not place.path.exists():
        raise NotFound(f"no session {visible(session)}: there is no store at {place.path}")
    receipt, view = anyio.run(_send, place, session, text, by if by is not None else login_name())
    if json:
        answers.print_json(answers.receipt_document(receipt))
    else:
        _report(receipt, view, place)
    return Exit.DONE


async def _send(place: Place, session: str, text: str, by: str) -> "tuple[Receipt, SessionView]":
    from supervisor.app import open_supervisor
    from supervisor.cli.inside import refuse_inside
    from supervisor.cli.reading import get_session

    async with open_supervisor(place.path, create=False) as supervisor:
        refuse_inside("sending", supervisor)
        get_session(supervisor, session)
        receipt = await supervisor.send(session, text, by)
        return receipt, supervisor.get_session(session)


def _report(receipt: Receipt, view: "SessionView", place: Place) -> None:
    became = {
        "delivered": "was waiting for it",
        "begun": "begins a turn with it",
        "kept": "gets it when it asks for a message, or as its next turn",
    }
    if view.parent is not None:
        became["kept"] = "gets it if it asks for a message before it ends; if not, that is said in its story"
    print(f"{visible(view.path[-1])} [{view.id}] {became[receipt.kind]}")
    if receipt.waiting_for:
        say("It waits for a person first:")
        for approval in receipt.waiting_for:
            say(f"  {approval.id}  {headline(approval)}: {summary(approval)}")
        say(f"supervisor approve ID{place.option}    or    supervisor deny ID --reason TEXT{place.option}")
    if not receipt.running:
        say(f"Nobody runs this session now; the message is kept. To go on: supervisor resume {view.root}{place.option}")
