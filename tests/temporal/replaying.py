"""Replays histories from its standard input, in a process of its own: with another hash seed, and other addresses."""

import json
import sys

import anyio
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from supervisor.system.finalizing import end_process, note_native_threads
from supervisor.system.loading import load_agent, load_agents
from supervisor.temporal.settings import PayloadsInUtf8
from supervisor.temporal.workflow.workflows import WORKFLOWS, Offer


async def replay() -> None:
    given = json.load(sys.stdin)
    for document in given["documents"]:
        where = document["agents"]
        agents = load_agents(where) if isinstance(where, str) else {key: load_agent(at) for key, at in where.items()}
        replayer = Replayer(
            workflows=WORKFLOWS,
            interceptors=[Offer(agents, 30.0)],
            workflow_runner=UnsandboxedWorkflowRunner(),
            data_converter=DataConverter(payload_converter_class=PayloadsInUtf8),
        )
        for named, history in document["histories"].items():
            for _ in range(given["times"]):
                try:
                    await replayer.replay_workflow(WorkflowHistory.from_json(named.split()[0], history))
                except Exception as error:
                    error.add_note(f"{document.get('test')}: {named}")
                    raise


if __name__ == "__main__":
    anyio.run(replay)
    note_native_threads()
    end_process(0)
