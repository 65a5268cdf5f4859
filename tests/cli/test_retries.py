"""`retry`: an operator runs a failed session again."""

from changed_agents import NOTES


def test_a_session_that_failed_by_a_bug_goes_on_with_the_mended_code(supervisor):
    """Exit code 1, then 0. Finished calls do not run again; the audit names the operator; a success is refused."""
    file = supervisor.folder / "works.py"
    file.write_text(NOTES.format(then="raise KeyError('bug')"))
    assert supervisor("run", f"{file}:works", "--session", "s").code == 1
    file.write_text(NOTES.format(then="return noted.content"))
    answer = supervisor("retry", "s", "--json")
    assert answer.code == 0, answer
    assert answer.json["outcome"]["value"] == "once"
    assert (supervisor.folder / "noted").read_text() == "once\n"
    assert "is retried by" in supervisor("audit").out
    assert supervisor("retry", "s").code == 2
    assert supervisor("retry", "nobody").code == 5
