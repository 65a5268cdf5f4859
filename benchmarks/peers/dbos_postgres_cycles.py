"""DBOS on PostgreSQL: so many workflows that each wait in recv for each decision, and then take a step.

python dbos_postgres_cycles.py WORKFLOWS DECISIONS SERVER
"""

import json
import statistics
import sys
import threading
import time

from dbos import DBOS, SetWorkflowID

effects: dict[str, threading.Event] = {}
took: list[float] = []


@DBOS.step()
def act(note: str) -> str:
    effects[note].set()
    return note


@DBOS.workflow()
def asker(number: int, count: int) -> str:
    for turn in range(count):
        assert DBOS.recv(f"decision{turn}", timeout_seconds=600) == "yes"
        act(f"{number}.{turn}")
    return "done"


def decide(number: int, workflow: str, count: int) -> None:
    """Send each decision when the step before it has been taken."""
    for turn in range(count):
        begun = time.perf_counter()
        DBOS.send(workflow, "yes", f"decision{turn}")
        effects[f"{number}.{turn}"].wait()
        took.append(time.perf_counter() - begun)


def main(workflows: int, count: int, server: str) -> dict[str, float]:
    DBOS(config={"name": "cycles", "system_database_url": server, "log_level": "ERROR"})
    DBOS.launch()
    effects.update({f"{number}.{turn}": threading.Event() for number in range(workflows) for turn in range(count)})
    handles, deciding = [], []
    for number in range(workflows):
        with SetWorkflowID(f"w{number} {time.time_ns()}"):
            handles.append(DBOS.start_workflow(asker, number, count))
    begun = time.perf_counter()
    for number, handle in enumerate(handles):
        deciding.append(threading.Thread(target=decide, args=(number, handle.workflow_id, count)))
        deciding[-1].start()
    for handle in handles:
        handle.get_result()
    seconds = time.perf_counter() - begun
    for each in deciding:
        each.join()
    DBOS.destroy()
    return {"per_second": workflows * count / seconds, "p50": statistics.median(took)}


found = main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
print(json.dumps({**found, "durability": "PostgreSQL, as DBOS sets it up"}))
