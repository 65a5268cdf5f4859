"""Traces are off by default, and cost nothing then: nothing of OpenTelemetry is imported."""

import subprocess
import sys

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes
from scenes import events, opened

from supervisor import Context, InvalidInput, MemoryStore, agent
from supervisor.core import events as e
from supervisor.traces import names

PROGRAM = """
import sys
import anyio
from supervisor import Context, agent, open_supervisor

@agent
async def quiet(ctx: Context) -> None:
    await ctx.step(work)

async def work() -> None:
    pass

async def main():
    async with open_supervisor("memory:") as supervisor:
        await (await supervisor.start(quiet)).result()

anyio.run(main)
print([name for name in sys.modules if name.startswith(("supervisor.traces", "opentelemetry"))])
"""


@agent
async def quiet(ctx: Context) -> None:
    pass


def test_without_traces_nothing_of_them_is_imported():
    shown = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


@pytest.mark.anyio
async def test_without_traces_a_session_journals_no_context(spans):
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(quiet, session="s")).result()
    (created,) = events(store, "s", e.SessionCreated)
    assert created.traceparent is None
    assert list(spans) == []


@pytest.mark.anyio
async def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch):
    """Before anything is opened."""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    monkeypatch.delitem(sys.modules, "supervisor.traces")
    with pytest.raises(InvalidInput, match=r"\[otel\]"):
        async with opened(traces=True):
            pass


def test_the_pinned_names_are_those_of_the_conventions():
    """Where they have one for what we say."""
    ours = {value for name, value in vars(names).items() if name.isupper() and "." in value}
    theirs = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper()
    }
    assert {name for name in ours if not name.startswith("supervisor.")} <= theirs
    known = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.INVOKE_AGENT, names.EXECUTE_TOOL} <= known
