"""R5: the number of barren attempts in a row is bounded. An attempt that waits for a person is not barren."""

import signal

from afterwards import Story, effects, lines, log_of


def test_a_run_that_kills_its_process_at_every_attempt_is_abandoned_after_three(nests, tmp_path, backend):
    """The agent dies before it has appended anything. The fourth process abandons the run, and does not die."""
    codes = [nests.live("begin_and_leave", tmp_path, backend=backend, session="suicidal")]
    codes += [nests.live("finish", tmp_path, backend=backend, session="suicidal") for _ in range(3)]

    assert codes == [-signal.SIGKILL] * 3 + [0], log_of(tmp_path)
    assert lines(tmp_path, "effects") == ["attempt"] * 3
    assert Story(tmp_path).kinds("suicidal") == {"suicidal": "abandoned"}


def test_a_waiting_run_that_is_killed_many_times_keeps_its_approval_id(nests, tmp_path, backend):
    """Six processes die while the approval is pending. The seventh gets the answer, and the call runs once."""
    kinds = ["ToolCallRequested", *["AttemptSettled"] * 5]
    for kind in kinds:
        code = nests.live("wait_to_be_killed", tmp_path, backend=backend, session="asker", when=kind)
        assert code == -signal.SIGKILL, log_of(tmp_path)
    owner = nests.begin("own", tmp_path, backend=backend, session="asker")
    assert owner.hear() == "asked"

    decider = nests.begin("decide_one", tmp_path, backend=backend, decision="approve")

    assert decider.hear()[0] == "accepted"
    assert decider.end() == 0
    assert owner.hear() == "ok"
    assert owner.end() == 0
    assert {*lines(tmp_path, "shown")} == {Story(tmp_path).approvals[0].id}
    assert effects(tmp_path) == {"danger asked": 1}
