"""Settings of the documentation site: `make docs` builds it into build/docs."""

import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

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

# Formulas are written in plain text, as in the docstrings, and headings are the targets of links.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say what arguments are
autodoc_default_options = {"members": True, "inherited-members": False}
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
html_theme_options = {"navigation_with_keys": True}


def escape_plain_text(app, what, name, obj, options, lines):  # noqa: D103
    # Docstrings are plain text with formulas such as |x| and arguments such as *shape; reStructuredText would take the
    # signs for markup.
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")) and "``" not in line:
            lines[k] = re.sub(r"(?<![*\w])\*(?=\w)(?!\w+\*)", r"\\*", line.replace("|", r"\|"))


def setup(app):  # noqa: D103
    app.connect("autodoc-process-docstring", escape_plain_text, priority=400)  # before numpydoc
