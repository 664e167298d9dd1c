"""Self-contained HTML pages: the page template, SVG charts, style sheets and scripts."""

__all__: list[str] = []
