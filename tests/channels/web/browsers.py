"""A real Chromium, driven as a person would drive it; tests say skipped where there is none."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from daemons import TOKEN, DaemonProcess

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""What the first does costs half of the processor's time: it is the same engine, without windows."""
PATIENCE = 60_000  # milliseconds until a test gives up: a busy machine is no failure


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Start the system's Chromium; skips the test where there is none, or no playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium-headless-shell)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Person:
    """Somebody at a browser of their own, logged in. Whatever its console complains of fails the test."""

    def __init__(self, browser: Any, daemon: DaemonProcess, **options: Any) -> None:
        self.daemon = daemon
        self.complaints: list[str] = []
        self.context = browser.new_context(base_url=daemon.url, **options)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.on("pageerror", self.complained)
        self.page.goto(f"/login?token={TOKEN}")

    def complained(self, what: Any) -> None:
        self.complaints.append(str(what))

    def card(self, text: str) -> Any:
        """The card that shows a text; there must be one."""
        return self.page.locator("[data-card]").filter(has_text=text)

    def see(self, place: Any, text: str | None = None) -> Any:
        """Wait until something is visible, with a text."""
        found = place if text is None else place.filter(has_text=text)
        found.first.wait_for(state="visible")
        return found.first

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Count what the page draws inside: nodes that come or go, elements whose style, and boxes whose place is
        computed. `all`: the elements of the page."""
        done: dict[str, int] = {}
        self.page.evaluate(
            """() => { window.moved = 0; (window.watch = new MutationObserver((all) => { for (const each of all)
            window.moved += each.addedNodes.length + each.removedNodes.length; })).observe(document, {childList: true,
            subtree: true}); }"""
        )
        self.context.browser.start_tracing(page=self.page, categories=["devtools.timeline"])
        yield done
        for event in json.loads(self.context.browser.stop_tracing())["traceEvents"]:
            args = event.get("args", {})
            done["styled"] = done.get("styled", 0) + args.get("elementCount", 0)
            done["laid out"] = done.get("laid out", 0) + args.get("beginData", {}).get("dirtyObjects", 0)
        done["nodes"], done["all"] = self.page.evaluate("[window.moved, document.querySelectorAll('*').length]")

    def leave(self) -> None:
        self.context.close()
        assert self.complaints == []
