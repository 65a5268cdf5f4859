"""Today's workflows replay the recorded histories `temporal`: in a process of its own, as a new worker does."""

import os
import sys

import pytest
from clusters import replay_files
from crossed import CROSSINGS, document
from recorded_temporal import AGENTS, DECIDED, WAIT


@pytest.mark.parametrize("crossing", CROSSINGS)
def test_histories_of_trees_are_replayed(crossing):
    """Trees that wait, that went on in new workflows, that took a patch, and what their decisions caused."""
    histories = document(crossing, "temporal")
    assert {named.split()[0] for named in histories} == WAIT.keys() | DECIDED.keys()
    assert len(histories) > len(WAIT) + len(DECIDED)
    agents = {spec.name: f"crossing_agents:{spec.name}" for spec in AGENTS}
    replay_files([{"agents": agents, "histories": histories}], processes=1, PYTHONPATH=os.pathsep.join(sys.path))
