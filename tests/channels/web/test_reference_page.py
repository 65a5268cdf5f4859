"""The page /docs shows the whole API from our own templates: to people, without scripts, and nothing of other sites."""

import re

import pytest
from accessibility import AXE, violations
from sites import world
from test_who_may import log_in

from supervisor.channels.web.pages.reference import type_of
from supervisor.channels.web.table import described

IN_CHROMIUM = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed in .peers")


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({}, "anything"),
        ({"type": "string", "format": "date-time"}, "string (date-time)"),
        ({"type": "integer", "minimum": 1, "maximum": 1000}, "integer ≥ 1 ≤ 1000"),
        ({"enum": ["a", "b"], "type": "string"}, '"a" | "b"'),
        ({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "(string | null)[]"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Rule"}}, "Rule[]"),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, "[integer, string]"),
    ],
)
def test_a_type_is_written_as_programmers_write_it(schema, shown):
    assert "".join(part.text for part in type_of(schema)) == shown


@pytest.mark.anyio
async def test_it_shows_every_operation_and_type_and_all_its_links_lead_somewhere():
    """Each has an address of its own, which what names it leads to."""
    async with world() as here, here.client() as client:
        await log_in(client)
        page = (await client.get("/docs")).raise_for_status().text
        api = described()
        named = [operation["operationId"] for methods in api["paths"].values() for operation in methods.values()]
        places = re.findall(r' id="([^"]+)"', page)
        assert len(places) == len({*places})
        assert {*named, *api["components"]["schemas"]} <= {*places}
        assert {*re.findall(r'href="#([^"]+)"', page)} <= {*places}
        for address in {*re.findall(r'(?:href|src)="([^"#]+)"', page)}:
            assert (await client.get(address)).status_code == 200, address


@pytest.mark.parametrize("who", [None, "bob"])
@pytest.mark.anyio
async def test_readers_of_the_document_may_read_the_page(who):
    """Every person, with any role; a client without a login is sent to the form."""
    async with world() as here, here.client() as client:
        if who is not None:
            await log_in(client, who)
        status = [(await client.get(path)).status_code for path in ("/openapi.json", "/docs")]
        assert status == ([401, 303] if who is None else [200, 200])


def test_it_is_read_without_scripts(one_daemon, person):
    """An operation opens, and a type leads to its fields."""
    ana = person(one_daemon, java_script_enabled=False, viewport={"width": 360, "height": 640})
    ana.page.get_by_role("link", name="HTTP API").click()
    ana.page.locator("#decide summary").click()
    ana.page.locator("#decide").get_by_role("link", name="DecisionBody").click()
    assert ana.page.url.endswith("/docs#DecisionBody")
    ana.see(ana.page.locator("#DecisionBody dt"), "decision")


@IN_CHROMIUM
def test_axe_finds_nothing(one_daemon, person):
    """With every operation open, and nothing is wider than a phone."""
    for width, scheme in ((1280, "light"), (360, "dark")):
        page = person(one_daemon, color_scheme=scheme, viewport={"width": width, "height": 800}).page
        page.goto("/docs")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
