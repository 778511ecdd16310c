"""Sphinx configuration. `make docs` builds the site."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import oahu

project = "oahu"
author = "The oahu developers"
copyright = "2026, The oahu developers"  # noqa: A001
version = release = oahu.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "reference_pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections state the types
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = f"oahu {release}"
html_sidebars = {"tutorial": [], "glossary": [], "changelog": []}  # pages without a section
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "light"}
html_show_sourcelink = False
