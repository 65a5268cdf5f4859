"""How Sphinx makes the site of these documents: `sphinx-build -W -n docs site`. It needs no network.

With `SUPERVISOR_DOCS_INTERSPHINX=1` names of Python, anyio and trio link to their documents: that fetches inventories.
"""

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import from_code

project = "subagent-supervisor"
author = "the authors of subagent-supervisor"
version = release = metadata.version(project)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "cyclopts.ext.sphinx"]
root_doc = "index"
exclude_patterns = ["README.md", "_templates"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = project
html_static_path: list[str] = []
myst_heading_anchors = 4
autosummary_generate = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!supervisor\.).*"),  # names of others: intersphinx finds those of Python, anyio and trio
    ("py:.*", r"supervisor\.[a-z_.]*[a-z_]+\.(?!sdk\.)\w+"),  # where a public name is defined, which is no public place
    ("py:.*", r"supervisor\..*\.\w+\.\w+"),
]
suppress_warnings = ["autosummary.import_cycle", "misc.highlighting_failure"]

if os.environ.get("SUPERVISOR_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "anyio": ("https://anyio.readthedocs.io/en/stable", None),
        "trio": ("https://trio.readthedocs.io/en/stable", None),
    }

from_code.write_pages(Path(__file__).parent)


def setup(app: Any) -> None:
    app.connect("source-read", from_code.place_links)
    app.connect("autodoc-process-docstring", from_code.as_restructured_text)
