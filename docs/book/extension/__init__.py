"""What the book needs beyond Sphinx, MyST-NB and the theme."""

from typing import Any

from sphinx.application import Sphinx

from extension import cache, contents, figures, mathematics, notebooks, paper, reference, sources


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", cache.set_folder)
    app.connect("config-inited", notebooks.set_formats)
    app.connect("source-read", contents.add_toctrees)
    app.add_html_math_renderer("mathml", (mathematics.show, None), (mathematics.show_displayed, None))
    app.add_directive("public", reference.Public)
    app.connect("autodoc-process-docstring", reference.convert_docstring)
    app.add_transform(paper.CodeBesidePaper)
    app.add_post_transform(sources.LinkSources)
    app.connect("html-collect-pages", sources.source_pages)
    app.connect("build-finished", contents.write_first_page)
    app.connect("build-finished", contents.add_pictures)
    app.connect("build-finished", figures.write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
