"""What waits in the recorded store `acp` goes on: an agent in a process of its own is started again, and asks again."""

import json
from collections import Counter

import anyio
import pytest
from crossed import CROSSINGS, decide_all, document, opened, unpacked
from crossing_acp import AGENTS, HOME

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("crossing", CROSSINGS)
async def test_each_effect_happens_once_after_its_decision(crossing, tmp_path, monkeypatch):
    """With a raw input the approvals that wait stay, and a decision of before is used; without it, people are asked
    anew."""
    monkeypatch.setenv(HOME, str(tmp_path))
    (tmp_path / "sessions").mkdir()
    for name, session in document(crossing, "acp").items():
        (tmp_path / "sessions" / f"{name}.json").write_text(json.dumps(session))
    async with opened(unpacked(crossing, "acp", tmp_path)) as supervisor, anyio.create_task_group() as tasks:
        before = {each.session: each.id for each in await supervisor.find_approvals()}
        assert before.keys() == {f"{name}-waits" for name in AGENTS}
        runs = await supervisor.resume_all()
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(decide_all, supervisor)
        assert [await run.result() for run in runs] == ["done"] * 4
        tasks.cancel_scope.cancel()
        ended = {each.id: each for each in await supervisor.find_approvals(pending=False)}
        assert ended[before["raw-waits"]].by == "ana"
        assert [each.by for each in ended.values() if each.session == "raw-decided"] == ["ben"]
    assert Counter((tmp_path / "effects").read_text().split()) == {"acp_raw": 2, "acp_bare": 2}
