"""The example of a whole agent loop, as a stranger runs it: real processes, a scripted model, and a kill in between."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import preloaded
import pytest

from supervisor import open_supervisor
from supervisor.system.loading import load_agent
from supervisor.testing import scripted_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat_loop.py"


def _script(*turns) -> str:
    return json.dumps(turns)


async def _pending(store: Path, count: int) -> list[str]:
    """Return the ids of so many approvals, once they wait."""
    found: list[str] = []
    async with open_supervisor(store, create=False) as supervisor, supervisor.watch_approvals() as watch:
        async for approval in watch:
            found.append(approval.id)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_is_killed_while_a_person_thinks_goes_on_and_does_nothing_twice(tmp_path, backend):
    """R1, T1: parallel calls, a sub-agent as a tool, a model's mistakes; SIGKILL, resume, approve from a shell."""
    write = json.dumps({"command": "echo parent >> ran.txt"})
    look = json.dumps({"command": "echo child >> ran.txt"})
    question = _script([["shell", look]], "the child is done")
    prompt = _script(
        [["nonsense", "{}"], ["shell", "{"]],
        [["shell", write], ["researcher", json.dumps({"question": question})]],
        "all is done",
    )
    store = tmp_path / "state.db"
    command = [sys.executable, "-m", "supervisor"]
    ending = ["--store", str(store)]
    with scripted_model(json.loads) as model:
        env = {**os.environ, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "planted-key", "OPENAI_MODEL": "scripted"}

        def begin(*arguments: str) -> "subprocess.Popen[str]":
            options = ["--wait", "--backend", backend, *ending]
            return preloaded.Popen(
                [*command, *arguments, *options], cwd=tmp_path, env=env, text=True, stdin=-3, stdout=-1, stderr=-1
            )

        first = begin("run", f"{EXAMPLE}:chat", json.dumps(prompt), "--session", "talk")
        try:
            assert first.stderr.readline()
            ids = anyio.run(_pending, store, 2)  # by then nothing else is left to do
        finally:
            first.kill()
            first.communicate()
        second = begin("resume", "talk")
        approving = [preloaded.Popen([*command, "approve", each, *ending], stdout=-3, stderr=-3) for each in ids]
        assert [each.wait(timeout=60) for each in approving] == [0, 0]
        out, err = second.communicate(timeout=60)
    assert (second.returncode, "all is done" in out) == (0, True), err
    assert sorted((tmp_path / "ran.txt").read_text().split()) == ["child", "parent"]
    conversations = [json.dumps(request.body["messages"]) for request in model.requests]
    assert len(conversations) == len(set(conversations)) == 5
    assert b"planted-key" not in b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.anyio
async def test_a_reply_is_answered_by_a_model_that_was_told_the_earlier_turns(tmp_path, monkeypatch):
    """R7: with the calls and results of those turns; the sub-agent is told nothing of them."""
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    monkeypatch.setenv("OPENAI_MODEL", "scripted")
    chat = load_agent(f"{EXAMPLE}:chat")
    turns = [
        _script([["shell", json.dumps({"command": "echo seen"})]], "I saw it"),
        _script([["researcher", json.dumps({"question": _script("the child is done")})]], "I remember"),
        _script("and now"),
    ]
    with scripted_model(json.loads) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        async with open_supervisor(tmp_path / "state.db", unattended="allow") as supervisor:
            run = await supervisor.start(chat, turns[0], session="talk")
            assert await run.result() == "I saw it"
        async with open_supervisor(tmp_path / "state.db", agents=[chat], unattended="allow") as supervisor:
            for turn, said in zip(turns[1:], ("I remember", "and now"), strict=True):
                await supervisor.send("talk", turn)
                assert await (await supervisor.get_run("talk")).result() == said
    roles = [" ".join(message["role"] for message in request.body["messages"]) for request in model.requests]
    turn = "user assistant tool assistant"
    first, second = ["user", "user assistant tool"], [f"{turn} user", "user", f"{turn} user assistant tool"]
    assert roles == [*first, *second, f"{turn} {turn} user"]
