"""The example of a supervised coding agent, with the scripted agent in the place of a real one."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path

import anyio
import pytest

from supervisor import Answer, Approve, MemoryStore, open_supervisor

pytestmark = pytest.mark.anyio
TESTS = Path(__file__).parent.parent
STEP = {"do": "ask", "id": "c1", "title": "mend it", "kind": "edit", "input": {"path": "parser.py"}}


@pytest.fixture
def example(tmp_path, monkeypatch):
    script = {"turns": [[STEP, {"do": "say", "text": "mended"}]]}
    command = [sys.executable, str(TESTS / "agents/fake_agent.py"), json.dumps(script)]
    monkeypatch.setenv("CODING_AGENT", shlex.join(command))
    monkeypatch.setenv("FAKE_AGENT_HOME", str(tmp_path))
    spec = importlib.util.spec_from_file_location("coding_agent", TESTS.parent / "examples/coding_agent.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "coding_agent", module)
    spec.loader.exec_module(module)
    return module


async def test_a_person_allows_the_work_and_keeps_it(example, tmp_path):
    """The reviewer asks for the same edit, and a rule denies it."""
    with anyio.fail_after(60):
        async with open_supervisor(MemoryStore()) as supervisor:
            run = await supervisor.start(example.mend, "mend the parser")
            async with run.watch_approvals() as watch:
                edit = await anext(watch)
                assert (edit.tool, edit.path) == ("coder.edit", ("mend", "coder"))
                await supervisor.decide(edit.id, Approve(by="ana"))
                question = await anext(watch)
                await supervisor.decide(question.id, Answer(value="keep it", by="ana"))
            assert await run.result() == "mended"
    assert (tmp_path / "effects").read_text().split() == ["c1"]
