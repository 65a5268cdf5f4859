"""A store on PostgreSQL of an older format is upgraded alone, in one transaction; the fixture of each format goes on.

The step is artificial, as in format_steps.py: this process is the older program, except within `newer()`.
"""

import os
import runpy
import threading
from contextlib import contextmanager
from pathlib import Path

import format_agents
import pytest
from postgres_server import ask, connect, load, text_of
from store_stories import append, asked, created, everything, started

from supervisor import Approve, StoreDied, StoreUnreadable, open_supervisor
from supervisor.store.postgres import schema
from supervisor.store.postgres.store import PostgresStore
from supervisor.testing import replaced

FOLDER = Path(__file__).parent / "formats"
OLD = schema.newest()
FORMATS = range(1, OLD + 1)
STEP = """
ALTER TABLE session ADD COLUMN mood text NOT NULL DEFAULT 'calm';
UPDATE event SET body = convert_to(replace(convert_from(body, 'UTF8'), '"ann"', '"Ann of the next format"'), 'UTF8')
 WHERE id IS NOT NULL;
"""


@contextmanager
def newer(step=STEP):
    with replaced(schema, "STEPS", (*schema.STEPS, step)):
        yield


@contextmanager
def opened(url):
    store = PostgresStore(url)
    store.open()
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def older(postgres):
    """The URL of a store in which a session waits for a person."""
    with opened(postgres) as store:
        append(store, ("a", created()), ("a", started()), ("a", asked()))
    return postgres


def version_of(url):
    return ask(url, "SELECT format FROM store")[0][0]


def requester(url):
    with opened(url) as store:
        return store.journal("a")[0].event.requester


def test_a_store_of_an_older_format_is_upgraded_when_it_is_opened(older):
    """Its content is rewritten by the step; the older program refuses it from then on, and touches nothing."""
    with newer():
        assert requester(older) == "Ann of the next format"
        assert requester(older) == "Ann of the next format"  # the step is not taken again
    assert version_of(older) == OLD + 1
    with pytest.raises(StoreUnreadable, match="newer version of this program"):
        requester(older)


def test_an_upgrade_that_fails_leaves_the_older_format_whole(older):
    """All of a step commits, or nothing: the older program goes on with the store."""
    with opened(older) as store:
        before = everything(store)
    with newer(f"{STEP} SELECT 1 / 0;"), pytest.raises(StoreUnreadable, match="division by zero"):
        requester(older)
    assert version_of(older) == OLD
    with opened(older) as store:
        assert everything(store) == before


def test_no_store_is_upgraded_while_another_process_has_it_open(older):
    """The error names the process; when that has left, the upgrade is made."""
    with opened(older) as store, newer(), replaced(schema, "PATIENCE_SECONDS", 0.1):
        with pytest.raises(StoreUnreadable, match=f"must be upgraded, but .*:{os.getpid()}\\)"):
            requester(older)
        store.close()
        assert requester(older) == "Ann of the next format"


def test_a_program_of_the_older_format_that_was_cut_off_during_an_upgrade_writes_no_more(older):
    """When its connections are made again, they find the new number."""
    with opened(older) as store:
        ask(older, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                   f"WHERE application_name LIKE 'supervisor %:{os.getpid()}'")  # fmt: skip
        with newer(), opened(older) as other:
            append(other, ("b", created("b")))
        with pytest.raises(StoreDied, match="newer version of this program"):
            sum(iter(store.begin, True))
        with pytest.raises(StoreDied, match="newer version of this program"):
            store.journal("a")


def test_a_process_that_comes_during_an_upgrade_waits_for_it(older):
    """It stands at the door, and finds nothing to do."""
    came = []
    with newer(f"{STEP} SELECT pg_sleep(0.3);"):
        both = [threading.Thread(target=lambda: came.append(requester(older))) for _ in range(2)]
        for each in both:
            each.start()
        for each in both:
            each.join()
    assert came == ["Ann of the next format"] * 2


def test_a_backup_that_reads_the_tables_is_named_as_the_reason(older):
    """A step that needs a table for itself does not wait for ever while it keeps all others out."""
    step = f"SET LOCAL lock_timeout = '50ms';{STEP}"
    with connect(older) as reads, reads.transaction(), newer(step):
        reads.execute("SELECT count(*) FROM session")
        with pytest.raises(StoreUnreadable, match="as a backup does"):
            requester(older)
    assert version_of(older) == OLD


def test_every_format_on_postgresql_has_a_fixture_made_by_a_script(server, postgres):
    """See CONTRIBUTING.md, "A new format of the store": the script makes the text of the newest one again."""
    assert [FOLDER / f"postgres-{number}.sql" for number in FORMATS] == sorted(FOLDER.glob("postgres-*.sql"))
    kept = FOLDER / f"postgres-{OLD}.sql"
    load(postgres, kept.read_text())
    made = runpy.run_path(str(FOLDER / "make_postgres.py"))["make"](server)
    assert text_of(postgres) == made


@pytest.mark.anyio
@pytest.mark.parametrize("is_newer", [False, True], ids=["today's program", "the next one"])
@pytest.mark.parametrize("number", FORMATS)
async def test_a_store_on_postgresql_of_each_format_goes_on(number, is_newer, postgres):
    """As test_store_formats.py says it for files."""
    load(postgres, (FOLDER / f"postgres-{number}.sql").read_text())
    with newer() if is_newer else replaced(schema, "STEPS", schema.STEPS):
        async with open_supervisor(postgres) as supervisor:
            statuses = {view.id: view.status for view in await supervisor.find_sessions()}
            used = {"used": "completed"}
            assert statuses == {"done": "completed", "waits": "waiting_approval", **used}
            denies, *allowances = await supervisor.find_rules()
            assert (denies.kind, denies.tool) == ("deny", "rm")
            assert [(each.uses, each.used, each.ended) for each in allowances] == [(2, 1, False)]
            run = await supervisor.resume("waits")
            (approval,) = await supervisor.find_approvals()
            assert (approval.tool, approval.arguments) == (format_agents.deploy.name, {"target": "app.tar"})
            await supervisor.decide(approval.id, Approve(by="ann"))
            assert await run.result() == "deployed app.tar"
    assert version_of(postgres) == OLD + is_newer
