"""The runtime reads time in one module (runtime/clock/clock.py); imports of `time` are refused by lint-imports."""

import ast
from pathlib import Path

from supervisor import runtime

PLACE = Path(runtime.__file__).parent
CLOCK = PLACE / "clock" / "clock.py"


def reads_wall_time(source: str) -> bool:
    """Whether a module asks `datetime` or `date` for the present."""
    names = {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    return any(name.endswith(("datetime.now", ".utcnow", ".today")) for name in names)


def test_wall_time_is_read_by_the_clock_alone() -> None:
    sources = {path: path.read_text() for path in PLACE.rglob("*.py")}
    assert [path for path, source in sources.items() if reads_wall_time(source)] == [CLOCK]
