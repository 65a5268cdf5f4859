"""Several processes on one store: the owner of a tree runs it. Every other one decides, cancels and learns which
process owns it."""

import signal

import pytest
from afterwards import Story, effects, left_open, log_of, problems


@pytest.mark.parametrize("n", [4, 9, 16])
def test_a_tree_whose_process_was_killed_is_taken_over_by_the_other_one_on_the_store(nests, tmp_path, backend, n):
    """Both create the store and start runs at once. One dies, and the other one, told to resume, finishes both
    trees."""
    one = nests.begin("run", tmp_path, backend=backend, session="one", act="kill", n=n)
    two = nests.begin("run_and_take_over", tmp_path, backend=backend, session="two")
    assert one.end() == -signal.SIGKILL, log_of(tmp_path)
    assert two.hear() == "finished"

    two.tell("one")

    assert two.end() == 0, log_of(tmp_path)
    assert problems(tmp_path, "one", "two") == []


def test_two_processes_that_start_runs_at_the_same_time_both_finish(nests, tmp_path, backend):
    """Every commit of one waits for those of the other, and neither disturbs the other's runs."""
    lives = [nests.begin("run", tmp_path, backend=backend, session=session) for session in ("one", "two")]

    assert [life.end() for life in lives] == [0, 0], log_of(tmp_path)

    assert problems(tmp_path, "one", "two", may_lose=False) == []


def test_a_tree_that_a_living_process_owns_is_refused_by_name(nests, tmp_path, backend):
    """Neither start nor resume takes a tree from a living process. Both errors name that process."""
    owner = nests.begin("own", tmp_path, backend=backend, session="asker")
    assert owner.hear() == "asked"
    other = nests.begin("claim", tmp_path, backend=backend, session="asker")

    refusals = [other.hear(), other.hear()]

    assert other.end() == 0, log_of(tmp_path)
    assert [root for root, _ in refusals] == ["asker", "asker"]
    assert all(str(owner.pid) in who.split() for _, who in refusals)
    assert effects(tmp_path) == {}
    assert nests.live("cancel", tmp_path, backend=backend, session="asker") == 0
    assert owner.hear() is None
    assert owner.end() == 0


@pytest.mark.parametrize("is_run", [True, False], ids=["run", "unrun"])
def test_of_two_processes_that_decide_differently_at_once_one_wins_and_the_other_is_told(
    nests, tmp_path, backend, is_run
):
    """Two processes decide each of twenty approvals at the same time, with and without a third one that runs the
    tree."""
    if is_run:
        owner = nests.begin("own", tmp_path, backend=backend, session="questioner")
        assert owner.hear() == "asked"
    else:
        assert nests.live("begin_and_leave", tmp_path, backend=backend, session="questioner") == 0
    yes = nests.begin("decide_all", tmp_path, backend=backend, decision="approve")
    no = nests.begin("decide_all", tmp_path, backend=backend, decision="deny")
    for left in reversed(range(20)):
        assert yes.hear() == no.hear()
        yes.tell("go")
        no.tell("go")
        results = [yes.hear(), no.hear()]
        assert sorted(kind for kind, *_ in results) == ["accepted", "conflict"]
        assert results[0][1:3] == results[1][1:3], "both are told the same: how it was decided, and by whom"
        if left:  # the last decision lets the run end
            assert [running for *_, running in results] == [is_run, is_run]
    assert [yes.end(), no.end()] == [0, 0], log_of(tmp_path)

    if is_run:
        owner.hear()
        assert owner.end() == 0
    else:
        assert nests.live("finish", tmp_path, backend=backend, session="questioner") == 0
    approved = {f"danger {a.arguments['x']}": 1 for a in Story(tmp_path).approvals if a.status == "approved"}
    assert effects(tmp_path) == approved
    assert [*left_open(Story(tmp_path))] == []


def test_a_decision_made_in_another_process_reaches_the_one_that_runs_the_tree(nests, tmp_path, backend):
    """The owner waits. Another process approves and learns that the tree runs, and the call runs once."""
    owner = nests.begin("own", tmp_path, backend=backend, session="asker")
    assert owner.hear() == "asked"

    decider = nests.begin("decide_one", tmp_path, backend=backend, decision="approve")

    assert decider.hear() == ["accepted", "approved", "ana", True]
    assert decider.end() == 0
    assert owner.hear() == "ok"
    assert owner.end() == 0
    assert effects(tmp_path) == {"danger asked": 1}


def test_an_approval_that_is_decided_without_an_owner_runs_at_the_next_resume_once(nests, tmp_path, backend):
    """The decision is kept, and nothing runs. The next process runs the call, and the one after that finds its
    result."""
    assert nests.live("begin_and_leave", tmp_path, backend=backend, session="asker") == 0
    decider = nests.begin("decide_one", tmp_path, backend=backend, decision="approve")
    assert decider.hear() == ["accepted", "approved", "ana", False]
    assert decider.end() == 0
    assert effects(tmp_path) == {}

    assert nests.live("finish", tmp_path, backend=backend, session="asker") == 0
    assert nests.live("finish", tmp_path, backend=backend, session="asker") == 0

    assert effects(tmp_path) == {"danger asked": 1}
