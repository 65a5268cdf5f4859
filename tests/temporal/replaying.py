"""Replays a history from its standard input, in a process of its own: with another hash seed, and other addresses."""

import json
import sys

import anyio
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from supervisor.loading import load_agents
from supervisor.system.finalizing import end, note_native_threads
from supervisor.temporal.workflows import WORKFLOWS, Offer


async def replay() -> None:
    given = json.load(sys.stdin)
    replayer = Replayer(
        workflows=WORKFLOWS,
        interceptors=[Offer(load_agents(given["agents"]), 30.0)],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    for session, history in given["histories"].items():
        for _ in range(given["times"]):
            await replayer.replay_workflow(WorkflowHistory.from_json(session, history))


if __name__ == "__main__":
    anyio.run(replay)
    note_native_threads()
    end(0)
