"""What CI leaves out."""

from one_backend import left_out

SURFACE = {f"tests/client/test_a.py::test_{rule}[{backend}-1]" for rule in "abcdef" for backend in ("asyncio", "trio")}


def test_ci_runs_each_rule_of_a_surface_on_one_backend_and_uses_both():
    kept = SURFACE - left_out(SURFACE)
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
        kept = (one | cases | alone) - left_out(one | cases | alone, seed)
        assert kept >= one | alone
        assert sorted(test.partition("[")[2][0] for test in kept & cases) == ["a", "b"]
        assert {"asyncio" in test for test in kept & cases} == {True, False}
