"""A1, A7: a decision and its rule are one commit, whichever process dies and when. Other processes obey the rule."""

import signal

import pytest
from afterwards import Story, effects, log_of


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rule_is_on_disk_with_its_decision_or_neither_is(nests, tmp_path, backend, when):
    """The deciding process is killed before or after its commit. The next one learns which, and the rule exists
    once."""
    assert nests.live("begin_and_leave", tmp_path, backend=backend, session="asker") == 0
    code = nests.live("decide_one", tmp_path, backend=backend, decision="always", act="kill", when=when, n=1)
    assert code == -signal.SIGKILL, log_of(tmp_path)

    story = Story(tmp_path)
    (asked,) = story.approvals
    made = [rule.approval for rule in story.rules.standing.values()]
    assert (asked.status, made) == (("pending", []) if when == "before" else ("approved", [asked.id]))

    assert nests.live("decide_and_finish", tmp_path, backend=backend, session="asker", decision="always") == 0
    assert [rule.approval for rule in Story(tmp_path).rules.standing.values()] == [asked.id]
    assert effects(tmp_path) == {"danger asked": 1}


def test_a_rule_of_another_process_holds_in_the_process_that_runs_the_tree(nests, tmp_path, backend):
    """The owner lives all the time. It goes on by the decision, and its next session asks no approval."""
    owner = nests.begin("own_twice", tmp_path, backend=backend, session="asker")
    assert owner.hear() == "asked"
    decider = nests.begin("decide_one", tmp_path, backend=backend, decision="always")
    assert decider.hear()[0] == "accepted"
    assert decider.end() == 0
    assert [owner.hear(), owner.hear()] == ["ok", "ok"]
    assert owner.end() == 0, log_of(tmp_path)
    story = Story(tmp_path)
    assert (len(story.approvals), len(story.rules.standing)) == (1, 1)
    assert effects(tmp_path) == {"danger asked": 2}
