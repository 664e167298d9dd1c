"""HTML page template: self-contained pages that open from disk without network access."""

import html
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

__all__ = ["asset", "html_page"]


def html_page(title: str, body: str, *, css: str = "") -> str:
    """HTML of a complete page, with its style sheets and script inside.

    Parameters
    ----------
    title : str
        Title and heading of the page; it is escaped.
    body : str
        HTML below the heading. Text in it must be escaped already, e.g. with `html.escape`.
    css : str
        Additional CSS, after that of all pages.

    Returns
    -------
    str
        HTML with a content security policy that allows the script of the project alone, and no network access.

    Examples
    --------
    >>> from sphereot._html.page import html_page
    >>> "<title>a &amp; b</title>" in html_page("a & b", "<p>Hello.</p>")
    True
    """
    script, page_css = asset("globe.js"), asset("page.css")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    heading = html.escape(title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{heading}</title>
<style>{page_css}{css}</style>
</head>
<body>
<main>
<h1>{heading}</h1>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def asset(name: str) -> str:
    """Text of a style sheet or script of the project."""
    return files("sphereot._html").joinpath("assets", name).read_text("utf-8")
