"""What CI leaves out."""

from ci_cases import left_out


def kept_of(tests, seed="", is_slow=False):
    return tests - left_out(dict.fromkeys(tests, is_slow), seed)


SURFACE = {f"tests/client/test_a.py::test_{rule}[{backend}-1]" for rule in "abcdef" for backend in ("asyncio", "trio")}


def test_ci_runs_each_rule_of_a_surface_on_ci_cases_and_uses_both():
    kept = kept_of(SURFACE)
    assert {test.partition("[")[0] for test in kept} == {test.partition("[")[0] for test in SURFACE}
    assert len(kept) == len(SURFACE) / 2
    assert {"asyncio" in test for test in kept} == {True, False}


def test_ci_runs_each_rule_of_the_runtime_on_both_backends_and_each_of_its_cases():
    one = {f"tests/runtime/test_a.py::test_one[{backend}]" for backend in ("asyncio", "trio")}
    cases = {
        f"tests/runtime/test_a.py::test_many[{case}-{backend}]" for case in "ab" for backend in ("asyncio", "trio")
    }
    alone = {"tests/agents/test_a.py::test_x[asyncio]"}
    for seed in "123":
        kept = kept_of(one | cases | alone, seed)
        assert kept >= one | alone
        assert sorted(test.partition("[")[2][0] for test in kept & cases) == ["a", "b"]
        assert {"asyncio" in test for test in kept & cases} == {True, False}


def test_ci_runs_one_case_of_each_slow_rule_and_with_the_next_commit_another_one():
    cases = {f"tests/crash/test_a.py::test_{rule}[{case}-trio]" for rule in "ab" for case in "xyz"}
    kept = [kept_of(cases, str(seed), is_slow=True) for seed in range(30)]
    assert {tuple(sorted(test.partition("[")[0][-1] for test in each)) for each in kept} == {("a", "b")}
    assert set().union(*kept) == cases
