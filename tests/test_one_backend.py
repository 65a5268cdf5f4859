"""What CI leaves out."""

from one_backend import left_out

SURFACE = {f"tests/client/test_a.py::test_{rule}[{backend}-1]" for rule in "abcdef" for backend in ("asyncio", "trio")}


def test_ci_runs_each_rule_of_a_surface_on_one_backend_and_uses_both():
    kept = SURFACE - left_out(SURFACE)
    assert {test.partition("[")[0] for test in kept} == {test.partition("[")[0] for test in SURFACE}
    assert len(kept) == len(SURFACE) / 2
    assert {"asyncio" in test for test in kept} == {True, False}


def test_ci_runs_all_of_the_runtime_and_what_exists_on_one_backend_only():
    tests = {test.replace("client", "runtime") for test in SURFACE} | {"tests/agents/test_a.py::test_x[asyncio]"}
    assert left_out(tests) == set()
