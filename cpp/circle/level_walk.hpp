// A matching of two measures of any weights, piece by piece of mass: a walk over the levels where atoms end.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <vector>

#include "circle/atoms.hpp"
#include "circle/merge_path.hpp"
#include "circle/powers.hpp"
#include "support/compiler.hpp"
#include "support/real.hpp"

namespace sphereot {

// The levels of y as x sees them at a cut, in (0, 1] and ascending: the first `before_lap` are those where the atoms
// first, first + 1, ... end, the others those where the atoms 0, 1, ... of the next lap end.
struct ShiftedLevels {
    std::size_t first, before_lap;
    double lap;
};

// Writes the levels of y, shifted by a cut that is a multiple of 1 / mass_units, and a sentinel above 1. Requires
// masses.
template <Real T>
ShiftedLevels shift_levels(const Atoms<T>& y, double cut, std::vector<double>& levels) {
    constexpr double above_all = 2.0;
    const std::size_t m = y.size();
    const double* ends = y.masses().data() + 1;
    const double lap = std::floor(cut), rest = cut - lap;
    const auto first = static_cast<std::size_t>(std::upper_bound(ends, ends + m - 1, rest) - ends);
    levels.resize(m + 1);
    double* out = levels.data();
    for (std::size_t j = first; j < m; ++j) out[j - first] = ends[j] - rest;
    for (std::size_t j = 0; j < first; ++j) out[m - first + j] = (ends[j] - rest) + 1.0;
    out[m] = above_all;
    return {first, m - first, lap};
}

// A function of a piece of mass: its atoms i and j, its mass, and the displacement x_i - y_j.
template <class Visit, class T>
concept MassVisitor = std::invocable<Visit&, std::size_t, std::size_t, double, T>;

// A walk over the pieces of mass of a matching: a merge of the levels where atoms of x end and those where atoms of y
// end. Pieces have one lift, and after s steps the walk is at atom i of x and at level s - i.
template <Real T>
struct LevelWalk {
    const double *ends, *levels;
    const T *a, *b;
    T lift;
    std::size_t i, y;  // levels[s - i] is where atom y + s - i of y ends
    double level;

    template <MassVisitor<T> Visit>
    SPHEREOT_INLINE void step(std::size_t s, Visit& visit) {
        const auto r = static_cast<std::ptrdiff_t>(s) - static_cast<std::ptrdiff_t>(i);
        const double x_ends = ends[i], y_ends = levels[r], next = std::min(x_ends, y_ends);
        visit(i, y + static_cast<std::size_t>(r), next - level, (a[i] - b[r]) - lift);
        level = next;
        i += level_less(x_ends, y_ends);
    }
};

// Calls visitors for all pieces of mass of the matching at a cut, in `merge_walks` walks; each walk has a visitor, so
// that their sums do not depend on each other either. Requires masses.
template <Real T, MassVisitor<T> Visit>
void walk_levels(const Atoms<T>& x, const Atoms<T>& y, double cut, CutMemory& memory,
                 std::array<Visit, merge_walks>& visitors) {
    constexpr std::size_t least_steps = 16;  // of a walk
    const std::size_t n = x.size(), m = y.size();
    const ShiftedLevels shifted = shift_levels(y, cut, memory.levels);
    const double *ends = x.masses().data() + 1, *levels = memory.levels.data();
    // The walk that begins at a step of the merge; atom first_y of y ends at level first_level.
    const auto walk_from = [&](std::size_t begin, std::size_t first_y, std::size_t first_level, T lift) {
        const std::size_t i = merge_split(ends, n, levels, m, begin), r = begin - i;
        const double level = std::max(i > 0 ? ends[i - 1] : 0.0, r > 0 ? levels[r - 1] : 0.0);
        const std::size_t at = first_y + begin - first_level;
        return LevelWalk<T>{ends, levels + begin, x.turns().data(), y.turns().data() + at, lift, i, at, level};
    };
    const auto walk_lap = [&](std::size_t begin, std::size_t end, std::size_t first_y, std::size_t first_level,
                              T lift) {
        static_assert(merge_walks == 4);
        const std::size_t steps = (end - begin) / merge_walks;
        if (steps >= least_steps) {
            auto first = walk_from(begin, first_y, first_level, lift);
            auto second = walk_from(begin + steps, first_y, first_level, lift);
            auto third = walk_from(begin + 2 * steps, first_y, first_level, lift);
            auto fourth = walk_from(begin + 3 * steps, first_y, first_level, lift);
            auto [visit_first, visit_second, visit_third, visit_fourth] = visitors;
            for (std::size_t s = 0; s < steps; ++s) {
                first.step(s, visit_first);
                second.step(s, visit_second);
                third.step(s, visit_third);
                fourth.step(s, visit_fourth);
            }
            visitors = {visit_first, visit_second, visit_third, visit_fourth};
            begin += merge_walks * steps;
        }
        auto rest = walk_from(begin, first_y, first_level, lift);
        for (std::size_t s = 0; s < end - begin; ++s) rest.step(s, visitors[0]);
    };
    // The lap of y ends with the step over its last level.
    const double last = levels[shifted.before_lap - 1];
    const auto passed = static_cast<std::size_t>(std::lower_bound(ends, ends + n, last) - ends);
    const std::size_t lap_end = passed + shifted.before_lap;
    const T lift = static_cast<T>(shifted.lap);
    walk_lap(0, lap_end, shifted.first, 0, lift);
    walk_lap(lap_end, n + m, 0, shifted.before_lap, lift + T(1));
}

// C at a cut. Requires masses.
template <Real T, CostPower Power>
double general_cost(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, CutMemory& memory) {
    struct Sum {
        Power power;
        double cost = 0.0;
        void operator()(std::size_t, std::size_t, double mass, T displacement) {
            cost += mass * static_cast<double>(power(displacement));
        }
    };
    const Sum zero{power};
    std::array<Sum, merge_walks> sums{zero, zero, zero, zero};
    walk_levels(x, y, cut, memory, sums);
    for (std::size_t w = 1; w < merge_walks; ++w) sums[0].cost += sums[w].cost;
    return sums[0].cost;
}

}  // namespace sphereot
