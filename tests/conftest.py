"""Both backends: real time by default, virtual time for a module that says `anyio_backend = virtual_backend`."""

import faulthandler
import gc
import os
import secrets
import tempfile
from contextlib import ExitStack

import collected
import preloaded
import pytest
from ci_cases import left_out
from hypothesis import HealthCheck, settings

from supervisor import AgentSpec, MemoryStore, SqliteStore, agent
from supervisor.testing import fresh_process, replaced, virtual_asyncio, virtual_trio

# A busy machine is no failure. In CI the examples are the same each time: what fails there was broken by the change.
# `--hypothesis-profile=random --hypothesis-seed=N` is the other run of CI, whose examples are new each time.
settings.register_profile("random", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
is_ci = "CI" in os.environ
settings.register_profile("house", settings.get_profile("random"), derandomize=is_ci, max_examples=25 if is_ci else 100)
settings.load_profile("house")

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # else the SDK sends what each run did to its makers
gc.disable()  # until all tests are collected: what is imported stays, and is not looked through again and again


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config, specs):
    folder = tempfile.TemporaryDirectory(prefix="pytest-workers-")
    config.add_cleanup(folder.cleanup)
    collected.begin(specs, config.args, folder.name)


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(4_000)  # a test makes little garbage, and looking for it takes a twelfth of the time
    gc.enable()


def pytest_collection_modifyitems(config, items):
    """Tests of some markers run only by hand, as with `-m soak`. Each worker has its part of the long tests first."""
    for marker in ("soak", "oldest"):
        if marker not in config.option.markexpr:
            config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(marker)])
            items[:] = [item for item in items if not item.get_closest_marker(marker)]
    if is_ci and collected.is_whole_run(config.args):
        twins = left_out({item.nodeid: item.get_closest_marker("slow") is not None for item in items})
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in twins])
        items[:] = [item for item in items if item.nodeid not in twins]
    items[:] = dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def dealt(items, workers):
    """Return the tests in an order whose equal parts, one for each worker as `--dist=worksteal` cuts them, begin with
    equally many long tests, so that no worker is left alone with them at the end. Those on Temporal, which wait for its
    server more than they work, are spread over all parts."""
    long, waiting, others, order = [], [], [], []
    for item in items:
        kind = long if item.get_closest_marker("slow") else waiting if "tests/temporal/" in item.nodeid else others
        kind.append(item)
    for worker in range(workers):
        part = (len(items) - len(order)) // (workers - worker)
        mine, mixed = long[worker::workers], waiting[worker::workers]
        rest = others[: part - len(mine) - len(mixed)]
        del others[: len(rest)]
        for place, each in enumerate(mixed):
            rest.insert(place * (len(rest) + 1) // len(mixed), each)
        order += mine + rest
    return order


def pytest_runtest_setup(item):
    """The soak takes longer than a test that hangs."""
    if item.get_closest_marker("soak"):
        faulthandler.cancel_dump_traceback_later()


def pytest_sessionfinish():
    preloaded.close()


def pytest_unconfigure():
    collected.end()  # after xdist has waited for its workers


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture(params=[virtual_asyncio, virtual_trio], ids=["asyncio", "trio"])
def virtual_backend(request):
    """A backend whose clock jumps to the next timer."""
    return request.param()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The URL of a database on the PostgreSQL server of this run."""
    import postgres_server  # with psycopg, which other tests need not wait for

    base = tmp_path_factory.getbasetemp()
    with postgres_server.shared(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) as url:
        yield url


@pytest.fixture
def postgres(server):
    """The URL of a store of its own on PostgreSQL."""
    return f"{server}?schema=t{secrets.token_hex(6)}"


@pytest.fixture
def patient(postgres, enter):
    """As `postgres`, for tests that are about something else than a slow server: a busy machine is no failure."""
    from supervisor.store.postgres import pulse

    enter(replaced(pulse, "PATIENCE_SECONDS", 30.0))
    enter(replaced(pulse, "LONGEST_SECONDS", 30.0))
    return postgres


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_store(request, tmp_path):
    """A store of each kind, which was not opened yet."""
    if request.param == "postgres":
        from supervisor.store.postgres.store import PostgresStore

        return PostgresStore(request.getfixturevalue("patient"))
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "state.db")


@pytest.fixture
def enter():
    """Return a function that enters a context, which the end of the test leaves, and returns its value."""
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def deployed(request, enter, monkeypatch):
    """Return a function that deploys code as another process would import it: a declared agent, or a body that
    `options` declare. None removes the code. `held_as`: its name in the test's module."""
    module = request.module

    def deploy(code, *, held_as="worker", **options):
        enter(fresh_process())
        if code is None:
            monkeypatch.delattr(module, held_as)
            return None
        new = code if isinstance(code, AgentSpec) else agent(**options)(code)
        new.__module__, new.__qualname__ = module.__name__, held_as
        monkeypatch.setattr(module, held_as, new, raising=False)
        return new

    return deploy
