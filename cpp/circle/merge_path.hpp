// Merges of two sorted arrays of levels, in several independent walks.
//
// A step of a merge depends on the comparison of the step before, so that one walk waits for its loads most of the
// time. Several walks over parts of equal length, interleaved, fill that time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "support/compiler.hpp"

namespace sphereot {

inline constexpr std::size_t merge_walks = 4;

// Non-negative doubles compare as their bits do, and the sum of an index and the result of that comparison is two
// instructions.
SPHEREOT_INLINE bool level_less(double one, double other) {
    return std::bit_cast<std::uint64_t>(one) < std::bit_cast<std::uint64_t>(other);
}

// How many of the first `steps` elements of the merge of two sorted arrays come from the first one; of equal elements
// those of the second array come first. Requires non-negative numbers and steps <= n + m.
inline std::size_t merge_split(const double* first, std::size_t n, const double* second, std::size_t m,
                               std::size_t steps) {
    std::size_t low = steps > m ? steps - m : 0, high = std::min(steps, n);
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (level_less(first[middle], second[steps - 1 - middle])) low = middle + 1;
        else high = middle;
    }
    return low;
}

// ranks[r] = the i with masses[i] < levels[r] <= masses[i + 1]. Requires n + 1 ascending masses from 0 to 1 and m > 0
// ascending levels in (0, 1].
inline void rank_levels(const double* masses, std::size_t n, const double* levels, std::size_t m,
                        std::uint32_t* ranks) {
    const double* ends = masses + 1;  // of the atoms
    const auto rank = [=](double level) {
        return static_cast<std::size_t>(std::lower_bound(ends, ends + n - 1, level) - ends);
    };
    const std::size_t last = rank(levels[m - 1]), total = m + last, steps = total / merge_walks;
    // Walk w begins after `begin` steps of the merge; after s more steps it is at level begin + s - i.
    std::array<std::size_t, merge_walks> i, level, level_rank;
    std::array<const double*, merge_walks> from;
    std::array<std::uint32_t*, merge_walks> to;
    for (std::size_t w = 0; w < merge_walks; ++w) {
        const std::size_t begin = w * steps;
        i[w] = merge_split(ends, last, levels, m, begin);
        level[w] = begin - i[w];
        level_rank[w] = level[w] < m ? rank(levels[level[w]]) : 0;
        from[w] = levels + begin;
        to[w] = ranks + begin;
    }
    const auto step = [&](std::size_t w, std::size_t s) {
        const auto at = static_cast<std::ptrdiff_t>(s) - static_cast<std::ptrdiff_t>(i[w]);
        to[w][at] = static_cast<std::uint32_t>(i[w]);  // the last write to an element is its rank
        i[w] += level_less(ends[i[w]], from[w][at]);
    };
    static_assert(merge_walks == 4);
    for (std::size_t s = 0; s < steps; ++s) {
        step(0, s);
        step(1, s);
        step(2, s);
        step(3, s);
    }
    for (std::size_t s = steps; s < total - (merge_walks - 1) * steps; ++s) step(merge_walks - 1, s);
    // A walk may have written to the first level of the next.
    for (std::size_t w = 1; w < merge_walks; ++w)
        if (level[w] < m) ranks[level[w]] = static_cast<std::uint32_t>(level_rank[w]);
}

}  // namespace sphereot
