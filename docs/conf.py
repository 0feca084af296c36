"""Settings of Sphinx. The build is strict: a warning, or a name that leads nowhere, is an error."""

from importlib.metadata import version as installed_version

from sphinx.application import Sphinx

project = "femtobarn"
author = "the femtobarn developers"
project_copyright = "the femtobarn developers"
version = release = installed_version("femtobarn")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc shows the types of parameters, in words
numpydoc_show_class_members = False
numpydoc_validation_checks = {"GL01", "GL03", "PR01", "PR02", "RT01", "SS01", "SS03"}
# Classes are made by functions, not by users, and document attributes, not parameters.
# Members of named tuples are documented there, too.
numpydoc_validation_exclude = {r"^femtobarn\.(aio\.)?[A-Z]\w*$", r"^femtobarn\.Product\."}

html_theme = "furo"
html_title = f"femtobarn {version}"
html_static_path = ["_static"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f4e79", "color-brand-content": "#1f4e79"},
    "dark_css_variables": {"color-brand-primary": "#8fbce6", "color-brand-content": "#8fbce6"},
}


def without_signature(_app: object, what: str, *_: object) -> tuple[str, None] | None:
    """Leave out how classes are made: users get them from functions."""
    return ("", None) if what in ("class", "exception") else None


def setup(app: Sphinx) -> None:
    """Connect what this file changes."""
    app.connect("autodoc-process-signature", without_signature)
