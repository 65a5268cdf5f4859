"""The example of a form: fields are checked, defaults count, and a question that expires is an outcome."""

from pathlib import Path

import pytest
from watching import next_of

from supervisor import Answer, InvalidInput, MemoryStore, open_supervisor
from supervisor.system.loading import load_agent

pytestmark = pytest.mark.anyio
book = load_agent(f"{Path(__file__).parents[2] / 'examples/form.py'}:book")


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.mark.parametrize(
    ("sure", "result"),
    [
        ("book it", "booked: Lyon for 2 days, by train"),
        ("leave it", "not booked: a person left it"),
        (None, "not booked: expired"),
    ],
)
async def test_a_form_takes_only_what_fits_it(sure, result):
    """Three weeks for a trip is too long; three days without an answer books nothing."""
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(book, "the autumn meeting")
        form = await next_of(run.watch_approvals())
        with pytest.raises(InvalidInput, match="days"):
            await supervisor.decide(form.id, Answer(value={"place": "Lyon", "days": 21}, by="ana"))
        await supervisor.decide(form.id, Answer(value={"place": "Lyon", "days": 2}, by="ana"))
        question = await next_of(run.watch_approvals())
        assert question.question == "Book Lyon for 2 days, by train?"
        if sure is not None:
            await supervisor.decide(question.id, Answer(value=sure, by="ben"))
        assert await run.result() == result
