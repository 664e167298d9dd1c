"""The table that benchmarks print."""

from math import inf

from benchmarks.timing import Row, table


def test_table_is_aligned_and_says_which_bars_are_met():
    rows = [
        Row("quick", 0.0123, "s", "a peer", 1.5, 121.95, 100, "more"),
        Row("slow work", 2.0, "s", "its limit", 0.5, 4.0, 3, "less"),
        Row("memory", 812.4, "MB", "", None, 812.4, inf, "less"),
    ]
    assert table(rows).splitlines() == [
        "work           ours  against      theirs  figure  bar",
        "quick       12.3 ms  a peer     1,500 ms     122  at least 100: met",
        "slow work  2,000 ms  its limit    500 ms    4.00  at most 3: MISSED",
        "memory       812 MB                          812",
    ]
