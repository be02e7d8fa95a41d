"""Settings of the documentation site: ``sphinx-build -W docs site``."""

import re
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import deeplfm

project, author = "deeplfm", "The deeplfm developers"
version = release = deeplfm.__version__
html_title = f"deeplfm {version}"
html_math_renderer = "mathml"  # formulas are shown by the browser, without scripts from a network
html_theme, html_show_copyright = "furo", False
html_static_path, html_css_files = ["_static"], ["tables.css"]
templates_path: list[str] = []
exclude_patterns = ["results", "figures"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # shapes are in the signatures of the source, and text in the docstrings
autodoc_member_order = "bysource"
napoleon_google_docstring, napoleon_use_ivar = True, True
suppress_warnings = ["ref.python"]  # names that two classes share

_OUTSIDE = {"../CONTRIBUTING.md": "contributing.md", "../examples": "examples.md"}


def _link_within(app, name, source):
    """Links to files beside the folder of the pages lead to their pages on the site."""
    for path, page in _OUTSIDE.items():
        source[0] = source[0].replace(f"]({path})", f"]({page})")
    if name == "decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    source[0] = re.sub(r"\[([^\]]+)\]\((results/?|\.\./benchmarks[^)]*)\)", r"\1", source[0])


def _without_substitutions(app, what, name, thing, options, lines):
    """|x| is an absolute value, not a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def _is_hidden(app, what, name, thing, skip, options):
    """Methods that come from other libraries are documented there."""
    home = str(getattr(thing, "__module__", "") or "")
    return True if home.startswith(("sklearn.", "sktime.", "torch.")) else None


def _write_gallery(app):
    """One section for each example: its first lines, and the script."""
    root = Path(__file__).parent
    parts = ["# Examples\n\nScripts to copy from. The tests run all of them.\n"]
    for path in sorted((root.parent / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        summary = text.split('"""')[1].partition("\n")[0]
        title = path.stem.replace("_", " ").capitalize()
        parts.append(
            f"## {title}\n\n{summary}\n\n```{{literalinclude}} ../examples/{path.name}\n```\n"
        )
    page = root / "examples.md"
    content = "\n".join(parts)
    if not page.exists() or page.read_text(encoding="utf-8") != content:
        page.write_text(content, encoding="utf-8")


def _write_mathml(display):
    def visit(writer, node):
        writer.body.append(convert(node.astext(), display=display))
        raise SkipNode

    return visit, None


def setup(app):
    """Register formulas, and the changes of pages and docstrings."""
    app.add_html_math_renderer("mathml", _write_mathml("inline"), _write_mathml("block"))
    app.connect("autodoc-process-docstring", _without_substitutions)
    app.connect("autodoc-skip-member", _is_hidden)
    app.connect("builder-inited", _write_gallery)
    app.connect("source-read", _link_within)
