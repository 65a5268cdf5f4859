"""A permission server dies around its commits. No decision counts twice, and no request that a person saw is lost.

What a death leaves in memory, at every commit and on both backends, is in test_laws.py.
"""

import collections
import json
import signal
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest

from supervisor import SqliteStore
from supervisor.core import events as e

LIFE = Path(__file__).with_name("permission_life.py")


def live(folder, backend, **job):
    """Live once, with or without a client. Return whether the process was killed."""
    command = [sys.executable, str(LIFE), json.dumps({"folder": str(folder), "backend": backend, **job})]
    process = preloaded.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), err
    return process.returncode != 0


def lines(folder, name):
    file = folder / name
    return file.read_text().splitlines() if file.exists() else []


def problems(folder):
    store = SqliteStore(folder / "state.db", create=False)
    store.open()
    events = [row.event for row in store.rows(0)]
    commands = {each.id: each.arguments["command"] for each in store.find_approvals(pending=False)}
    store.close()
    decided = [each for each in events if isinstance(each, e.ApprovalDecided)]
    decisions = collections.Counter(commands[each.approval] for each in decided)
    answers = collections.Counter(lines(folder, "answers"))
    for command, answer in (("ls", "ls Allowed"), ("rm", "rm Denied")):
        if not 1 <= answers[answer] <= decisions[command] <= 2:
            yield f"{decisions[command]} decisions on {command}, and {answers[answer]} answers"
    if set(answers) - {"ls Allowed", "rm Denied"}:
        yield f"wrong answers: {answers}"
    if lost := set(lines(folder, "shown")) - {each.approval for each in decided}:
        yield f"a person was shown {lost}, which has no decision"
    if any(isinstance(each, e.ApprovalWithdrawn | e.RunFinished | e.RunBlocked) for each in events):
        yield "something was withdrawn, or the session ended or was blocked"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "step"),
    [("trio", 3), pytest.param("asyncio", 1, marks=pytest.mark.soak), pytest.param("trio", 1, marks=pytest.mark.soak)],
)
def test_a_server_that_dies_around_any_commit_answers_each_decision_at_most_once(tmp_path, backend, step):
    """SIGKILL, then a life in which people decide without a client, then the same calls are asked for again."""
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    assert not live(undisturbed, backend, clients=True)
    assert list(problems(undisturbed)) == []
    points = [(when, n) for n in range(1, int(lines(undisturbed, "commits")[0]) + 1) for when in ("before", "after")]
    deaths = 0
    for when, n in points[::step]:
        folder = tmp_path / f"{when}{n}"
        folder.mkdir()
        deaths += live(folder, backend, clients=True, when=when, n=n)
        live(folder, backend, clients=False)
        assert not live(folder, backend, clients=True)
        assert list(problems(folder)) == [], (when, n)
    assert deaths
