"""Check the words of documents, docstrings, comments and messages: `python tools/check_words.py [--pages]`.

Lists words that are never right, with a replacement, and sentences that are too long in the README and the guides.
With --pages, it also prints the number of words and of long sentences of every page. Numbers and the bars of tables
are not words.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 30  # words of a sentence in the README and the guides
GUIDES = ("README.md", "docs/installation.md", "docs/quickstart.md", "docs/guide/")
FOLDERS = ("src", "paper", "examples", "benchmarks", "tools", "cpp")
SUFFIXES = {".py", ".hpp", ".cpp", ".html"}
GENERATED = ("docs/api/", "docs/gallery/")
NUMBER = r"(?:\d[\d,.]*|n = \d+|d = \d+)"
BANNED = {
    r"\bbeside\b": "compared with, next to, or besides",
    r"\bat hand\b": "available",
    r"\b(?:afresh|anew)\b": "again, or 'new ... in every call'",
    r"\bbut for\b": "except",
    r"\bgive such an? ": "delete it",
    r"(?<!here )\b(?:is|are) no (?:sketch|table|time|number|object|state|test|displacement|unit)\b": "is not a",
    r"\b(?:pages?|\w+\.md`?|\]\([^)]*\)) (?:has|have|says?)\b": "See ... for ...",
    r"\bsome (?:\d[\d,]*|hundred|thousand|ten|twenty|two)\b": "about",
    rf"\bfrom {NUMBER}[^.,;]{{0,20}} on\b(?! (?:the|a|an|S)\b)": "N or more",
    r"\bthe other way (?:a)?round\b": "vice versa, or name both directions",
    r"\balike\b": "similar, equal, or from the same distribution",
    r"\bby chance\b": "under the null hypothesis",
    r"\b(?:is|are) refused\b": "raises an error, or is not supported",
    r"\bwhatever\b": "for any, or regardless of",
    r"\bso (?:many|few)\b": "this number of, or too few",
}


def text_files() -> list[Path]:
    """All documents and sources that a reader meets."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "paper").glob("*.md")]
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    paths = [path for path in documents + sources if path != Path(__file__)]
    return sorted(path for path in paths if not path.relative_to(ROOT).as_posix().startswith(GENERATED))


def banned_words(text: str) -> list[tuple[int, str, str]]:
    """Line, words found, and what to write instead. Line breaks, also those of comments, count as blanks."""
    joined = re.sub(r"\n[ \t]*(?:#|//|\*)?", lambda found: " " * len(found.group()), text)
    return [
        (text.count("\n", 0, match.start()) + 1, match.group(), instead)
        for pattern, instead in BANNED.items()
        for match in re.finditer(pattern, joined, re.IGNORECASE)
    ]


def sentences(page: str) -> list[str]:
    """The sentences of a page in Markdown, without programs, tables, formulas, headings and the addresses of links."""
    page = re.sub(r"^(`{3,}|:{3,}).*?^\1", "\n\n", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"\$\$.*?\$\$", " FORMULA ", page, flags=re.DOTALL)
    page = re.sub(r"^(?:\||#| {4}|<|\[!|!\[).*$", "\n", page, flags=re.MULTILINE)
    page = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)
    page = re.sub(r"`[^`]*`|\$[^$]*\$", "CODE", page)
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", page)
    found = []
    for block in blocks:
        found += re.split(r"(?<=[.!?])[\s*_)]+(?=[A-Z(*_`\"])", " ".join(block.split()))
    return [sentence for sentence in found if re.search(r"\w", sentence)]


def count_words(sentence: str) -> int:
    """The number of words, numbers and formulas."""
    return len(re.findall(r"[\w'^{}=.,-]*\w[\w'^{}=.,-]*", sentence))


def words_of_page(page: str) -> int:
    """The number of words of a page: everything between blanks that contains a letter."""
    return sum(any(letter.isalpha() for letter in word) for word in page.split())


def main() -> int:
    """Print what is wrong, and return the number of findings."""
    findings, totals = [], [0, 0, 0]
    for path in text_files():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        findings += [f'{name}:{line}: "{words}": {instead}' for line, words, instead in banned_words(text)]
        if path.suffix != ".md":
            continue
        lengths = [count_words(sentence) for sentence in sentences(text)]
        long = sum(length > LONGEST for length in lengths)
        if name.startswith(GUIDES):
            findings += [
                f"{name}: {length} words: {sentence[:80]}..."
                for length, sentence in zip(lengths, sentences(text), strict=True)
                if length > LONGEST
            ]
        if name.startswith(("docs/", "README", "CHANGELOG", "CONTRIBUTING")):
            words = words_of_page(text)
            totals = [total + more for total, more in zip(totals, (words, len(lengths), long), strict=True)]
            if "--pages" in sys.argv:
                print(f"{words:>7,} words, {long:>3} of {len(lengths):>3} sentences above {LONGEST} words  {name}")
    if "--pages" in sys.argv:
        print(
            "{:>7,} words, {} of {} sentences are long ({:.1%})".format(
                *totals[:1], totals[2], totals[1], totals[2] / totals[1]
            )
        )
    print("\n".join(findings))
    return len(findings)


if __name__ == "__main__":
    sys.exit(bool(main()))
