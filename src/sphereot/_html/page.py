"""Pages that open from disk with no network."""

import html
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

__all__ = ["html_page"]


def html_page(title: str, body: str, *, look: str = "") -> str:
    """A whole page, with the look and the script that it needs inside.

    Parameters
    ----------
    title : str
        Text of the title and of the heading; it is escaped.
    body : str
        HTML of what follows the heading. Texts in it must be escaped already, e.g. with `html.escape`.
    look : str
        More CSS, after that of all pages.

    Returns
    -------
    str
        HTML with a policy that lets no script run but the project's own, and that asks nothing of a network.

    Examples
    --------
    >>> from sphereot._html.page import html_page
    >>> "<title>a &amp; b</title>" in html_page("a & b", "<p>Hello.</p>")
    True
    """
    script, shared_look = _asset("globe.js"), _asset("page.css")
    known = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{known}'; style-src 'unsafe-inline'; img-src data:"
    heading = html.escape(title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{heading}</title>
<style>{shared_look}{look}</style>
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


def _asset(name: str) -> str:
    return files("sphereot._html").joinpath("assets", name).read_text("utf-8")
