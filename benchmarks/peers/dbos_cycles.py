"""DBOS: a workflow that waits in recv, and is sent a decision."""

import json
import os
import sys
import tempfile
import time

from dbos import DBOS, SetWorkflowID


@DBOS.step()
def act(note: str) -> str:
    return note


@DBOS.workflow()
def asker(note: str) -> str:
    assert DBOS.recv("decision", timeout_seconds=600) == "yes"
    return act(note)


def main(count: int) -> float:
    DBOS(config={"name": "cycles", "system_database_url": "sqlite:///dbos.sqlite", "log_level": "ERROR"})
    DBOS.launch()
    begun = time.perf_counter()
    handles = []
    for number in range(count):
        with SetWorkflowID(f"w{number}"):
            handles.append(DBOS.start_workflow(asker, "x" * 200))
    for handle in handles:
        DBOS.send(handle.workflow_id, "yes", "decision")
    for handle in handles:
        handle.get_result()
    rate = count / (time.perf_counter() - begun)
    DBOS.destroy()
    return rate


with tempfile.TemporaryDirectory(dir=".") as folder:
    os.chdir(folder)
    print(json.dumps({"per_second": main(int(sys.argv[1])), "durability": "SQLite, as DBOS sets it up"}))
    os.chdir("..")
