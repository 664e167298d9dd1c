"""Code blocks of the documentation pages."""

import re
from pathlib import Path

__all__ = ["DOCS", "programs", "python_blocks"]

DOCS = Path(__file__).parents[2] / "docs"


def python_blocks(page, section=""):
    """The blocks marked as Python, in order, of a page below docs/ or of one of its sections."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)


def programs(page):
    """The blocks marked as Python, each with the block of text that follows it: the output, or ""."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```)?", text, flags=re.S | re.M)
