"""What temporalio's sandbox refuses in a workflow: a worker refuses it when it starts, with its file and line."""

import importlib.util
import subprocess
import sys

import pytest

from supervisor import Context, InvalidInput, agent
from supervisor.temporal.worker.determinism import refuse_undetermined

MODULE = """
import datetime, os, random, time, uuid
from datetime import datetime as moment
from os import environ, getenv
from pathlib import Path
from random import Random, choice
from supervisor import Context, agent

def helper() -> float:
    return time.time()

def as_step() -> float:
    return time.time()

@agent
async def deep(ctx: Context, when: moment) -> None:
    import subprocess as processes
    {body}

@agent
async def top(ctx: Context) -> None:
    await ctx.run(deep, await ctx.now())
"""
LINE = 18
REFUSED = {
    "time.time()": "time.time",
    "[time.sleep(each) for each in (1, 2)]": "time.sleep",
    "moment.now()": "datetime.datetime.now",
    "datetime.datetime.now(datetime.UTC)": "datetime.datetime.now",
    "choice([1, 2])": "random.choice",
    "str(uuid.uuid4())": "uuid.uuid4",
    "getenv('HOME')": "os.getenv",
    "os.environ.get('HOME')": "os.environ.get",
    "os.environ['HOME']": "os.environ",
    "environ['HOME']": "os.environ",
    "os.path.exists('x')": "os.path.exists",
    "open('x')": "open",
    "Path('x').read_text()": "pathlib.Path.read_text",
    "processes.run(['ls'])": "subprocess.run",
}
ALLOWED = [
    "moment(2026, 1, 1) + datetime.timedelta(days=1)",
    "os.path.join('a', os.path.basename('b'))",
    "str(Path('a') / 'b')",
    "Random(7).choice([1, 2])",
    "await ctx.step(as_step)",
    "time = moment; time.now()",
    "print(len(sorted([when])))",
]


def loaded(tmp_path, name, body):
    file = tmp_path / f"{name}.py"
    file.write_text(MODULE.format(body=body))
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, file


@pytest.mark.parametrize(("body", "called"), REFUSED.items(), ids=REFUSED.values())
def test_a_call_that_the_sandbox_refuses_is_refused_with_its_line(tmp_path, body, called):
    """Also in an agent that another one names."""
    module, file = loaded(tmp_path, "refused", body)
    with pytest.raises(InvalidInput) as refused:
        refuse_undetermined([module.top])
    assert str(refused.value).startswith(f"{file}, line {LINE}: agent deep uses {called}, ")


def test_a_function_that_an_agent_calls_is_read_too(tmp_path):
    """It belongs to the agent's own code; the line is the function's."""
    module, file = loaded(tmp_path, "helped", "helper()")
    with pytest.raises(InvalidInput, match=f"{file}, line 10: helper, which agent deep calls, uses time.time"):
        refuse_undetermined([module.top])


@pytest.mark.parametrize("body", ALLOWED)
def test_a_call_that_is_the_same_in_each_replay_is_allowed(tmp_path, body):
    """A name means what it means to Python; what a step does is not read."""
    module, _ = loaded(tmp_path, "allowed", body)
    refuse_undetermined([module.top])


def test_an_agent_without_a_source_is_left_to_its_replay():
    """It cannot be read."""
    names: dict = {"agent": agent, "Context": Context, "__name__": "typed"}
    exec("import time\n@agent\nasync def typed(ctx: Context) -> float:\n    return time.time()\n", names)
    refuse_undetermined([names["typed"]])


def test_a_worker_with_such_an_agent_ends_with_one_line(tmp_path):
    """Before it reaches a server."""
    (tmp_path / "agents.py").write_text(MODULE.format(body="time.time()"))
    command = [sys.executable, "-m", "supervisor", "worker", "agents.py", "--store", "temporal://127.0.0.1:1/default"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert f"agents.py, line {LINE}: agent deep uses time.time" in ended.stderr
    assert ended.stderr.count("\n") == 1
