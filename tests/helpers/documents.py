"""Code blocks of the documentation pages."""

import re
from pathlib import Path

__all__ = ["DOCS", "python_blocks"]

DOCS = Path(__file__).parents[2] / "docs"


def python_blocks(page):
    """The blocks marked as Python, in order; `page` is a path below docs/."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), flags=re.S | re.M)
