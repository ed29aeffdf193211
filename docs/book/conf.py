"""Sphinx configuration of the book: `make book`, or `sphinx-build -c docs/book . build/book` in the root.

The source directory is the root of the project, so that every page is part of the site as it is, and its links too.
Formulas between dollar signs become MathML when the book is built: they need no LaTeX, no script and no network.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT)]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # arrays of the book are small
os.environ.setdefault("CI", "1")  # Hypothesis then looks at no clock, which a busy machine upsets

from extension.sources import linkcode_resolve  # noqa: E402, F401 (needs the path; Sphinx calls it)
from jupyter_client.manager import KernelManager  # noqa: E402

if hasattr(KernelManager, "transport_encryption"):  # otherwise each kernel warns of plain TCP
    KernelManager.transport_encryption.default_value = "auto"

project = "minitf"
author = "the minitf developers"
root_doc = "docs/index"
include_patterns = ["docs/**", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "tests/README.md"]
include_patterns += ["autograd/*/README.md", "minitf/*/README.md", "additions/*/README.md", "findings/README.md"]
include_patterns += ["studies/benchmarks/gpu_window/README.md"]
exclude_patterns = [".*", "build", "dist", "runs", "**/__pycache__"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "extension",
]
html_theme = "furo"
html_title = "minitf"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # a browser does not load other pages from files
pygments_style = "friendly"
pygments_dark_style = "github-dark"

html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_labels = False
myst_heading_anchors = 4
nb_execution_mode = "cache"  # extension/cache.py sees that the project has changed
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # of a block, on a busy machine
nb_merge_streams = True
nb_render_markdown_format = "myst"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False
maximum_signature_line_length = 100
