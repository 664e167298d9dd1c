"""HTML pages that open from disk: the page itself, SVG charts, an interactive globe."""

__all__: list[str] = []
