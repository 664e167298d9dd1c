"""Settings of the documentation site: `make docs` builds it into build/docs."""

import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from docutils import nodes
from sphinx.ext.autosummary import autosummary_table

project = "sphereot"
author = "The sphereot developers"
copyright = author
version = release = installed_version("sphereot")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]

# Headings are the targets of links.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say what arguments are
autodoc_default_options = {
    "members": True,
    "inherited-members": False,
    "exclude-members": "set_fit_request, set_score_request",  # docstrings of scikit-learn, with links to its own pages
}
numpydoc_show_class_members = False
default_role = "code"

# The gallery runs the programs in examples/gallery and writes their pages to docs/gallery. Functions are named by their
# path: sphinx cannot store the settings otherwise.
sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # networks this small are slower with threads of PyTorch
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_\d\d_\w+\.py",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", "gallery_figures.set_defaults"),
    "image_srcset": ["2x"],
    "capture_repr": (),
    "abort_on_example_error": True,
    "min_reported_time": 1.0,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
}

html_theme = "furo"
html_title = f"sphereot {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}


def escape_plain_text(app, what, name, obj, options, lines):  # noqa: D103
    # Docstrings are plain text with formulas such as |x| and arguments such as *shape; reStructuredText would take the
    # signs for markup.
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")) and "``" not in line:
            lines[k] = re.sub(r"(?<![*\w])\*(?=\w)(?!\w+\*)", r"\\*", line.replace("|", r"\|"))


# Formulas in running text: SSW_2^2, SW_p, K_d, S^2, S^{d-1}.
FORMULA = re.compile(r"(?<![\w^])(?:(SSW|SW|W|K)_([0-9pd])(?:\^([0-9p]))?|S\^(\d+|\{[^}]*\}))(?![\w^])")


def typeset_formulas(app, doctree):  # noqa: D103
    for text in list(doctree.findall(nodes.Text)):
        parents = (nodes.literal, nodes.literal_block, nodes.FixedTextElement, nodes.math, nodes.raw, nodes.image)
        ancestor, plain = text.parent, False
        while ancestor is not None:
            plain = plain or (isinstance(ancestor, parents) and not isinstance(ancestor, autosummary_table))
            ancestor = ancestor.parent
        if plain or not FORMULA.search(text):
            continue
        parts, end = [], 0
        for match in FORMULA.finditer(text):
            name, index, power, sphere = match.groups()
            parts.append(nodes.Text(text[end : match.start()] + (name or "S")))
            if index:
                parts.append(nodes.subscript("", index))
            if power or sphere:
                parts.append(nodes.superscript("", (power or sphere).strip("{}")))
            end = match.end()
        parts.append(nodes.Text(text[end:]))
        text.parent.replace(text, [part for part in parts if part.astext()])


def setup(app):  # noqa: D103
    app.connect("autodoc-process-docstring", escape_plain_text, priority=400)  # before numpydoc
    app.connect("doctree-read", typeset_formulas, priority=100)  # before titles are collected
