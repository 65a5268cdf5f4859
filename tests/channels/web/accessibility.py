"""axe-core, which finds what keeps people from using a page; CI installs it in .peers."""

from pathlib import Path

AXE = Path(__file__).parents[3] / ".peers" / "node_modules" / "axe-core" / "axe.min.js"


def violations(page) -> list[str]:
    """Return what axe-core finds wrong with a page of Chromium."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("async () => (await axe.run()).violations")
    return [f"{each['id']}: {node['html']} {node['failureSummary']}" for each in found for node in each["nodes"]]
