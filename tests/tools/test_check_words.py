"""The check of words finds what is never right, and measures sentences and pages."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "check_words.py"


def load():
    spec = importlib.util.spec_from_file_location("check_words", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_banned_words():
    """Words are found with their line, also across the line breaks of comments."""
    check = load()
    found = check.banned_words("# The table stands\n# beside it, from 5 points\n# on.\n")
    assert [(line, " ".join(words.replace("#", "").split())) for line, words, _ in found] == [
        (2, "beside"),
        (2, "from 5 points on"),
    ]
    assert check.banned_words("for 5 or more points, next to it") == []


def test_sentences_and_words():
    """Programs, tables and headings are not sentences; numbers and bars of tables are not words."""
    check = load()
    page = "# Title\n\nUse `ssw`. See [the guide](guide.md) first.\n\n```python\nx = 1\n```\n\n| a | 0.5 |\n"
    assert check.sentences(page) == ["Use CODE.", "See the guide first."]
    assert [check.count_words(sentence) for sentence in check.sentences(page)] == [2, 4]
    assert check.words_of_page("| name | 0.5 ± 0.1 |\n") == 1
