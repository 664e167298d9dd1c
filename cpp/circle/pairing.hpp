// Exact optimal transport on the circle between two sorted discrete measures (Section 3.1).
//
// W_p^p = min over the cut alpha of C(alpha), the integral over (0, 1] of |F^-1(t) - G^-1(t + alpha)|^p, with quantile
// functions lifted by F^-1(t + 1) = F^-1(t) + 1. C is convex and piecewise affine.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circle/atoms.hpp"
#include "circle/breakpoints.hpp"
#include "circle/cut_search.hpp"
#include "circle/general_weights.hpp"
#include "circle/level_walk.hpp"
#include "circle/powers.hpp"
#include "circle/unequal_sizes.hpp"
#include "support/real.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Equal arcs of the circle whose atoms the sort has counted; few points are counted in fewer, wider cells.
struct Cells {
    static constexpr int count = static_cast<int>(digit_values), coarse_stride = 8;

    int stride;

    explicit Cells(std::size_t points) : stride(points < coarse_stride * digit_values ? coarse_stride : 1) {}

    // The last of the `stride` cells that are taken as one; add `stride` for the next.
    int first() const { return stride - 1; }
    double width() const { return static_cast<double>(stride) / count; }
};

// A cut near the optimal one, from the cells. Where the level of G exceeds that of F by D, the cut alpha = D does not
// move the points, and moving them by a level costs 1 / density: hence the mean of D weighted by 1 / density, which for
// p = 2 also gives C''. On an empty arc D is constant and C has a kink: then the median of D over the empty cells.
template <Real T>
InitialCut initial_cut(const Atoms<T>& x, const Atoms<T>& y) {
    const Cells cells(x.size() + y.size());
    std::array<double, Cells::count> kinks;
    std::size_t empty = 0;
    double total = 0.0, weights = 0.0, x_level = 0.0, y_level = 0.0;
    for (int cell = cells.first(); cell < Cells::count; cell += cells.stride) {
        const double x_next = x.level_after(cell), y_next = y.level_after(cell), gap = y_next - x_next;
        const double mass = x_next - x_level + y_next - y_level;
        if (mass > 0.0) {
            weights += 1.0 / mass;
            total += gap / mass;
        } else {
            kinks[empty++] = gap;
        }
        x_level = x_next;
        y_level = y_next;
    }
    const double curvature = 4.0 * cells.width() * cells.width() * weights;
    if (empty == 0) return {total / weights, curvature, false};
    std::nth_element(kinks.data(), kinks.data() + empty / 2, kinks.data() + empty);
    return {kinks[empty / 2], curvature, true};
}

// ---- n atoms of equal weight in both measures: the cut is a number k of atoms, alpha = k / n. ----

// The sum over i of term(x_i - Y_{i+k}, x_i - Y_{i+k+1}), where Y is y lifted: Y_{j+n} = Y_j + 1.
template <Real T, std::invocable<T, T> Term>
double sum_matched(const Atoms<T>& x, const Atoms<T>& y, double k, Term term) {
    const std::size_t n = x.size();
    const double laps = std::floor(k / static_cast<double>(n));
    const auto shift = static_cast<std::size_t>(k - laps * static_cast<double>(n));
    const T *a = x.turns().data(), *b = y.turns().data();
    using Value = decltype(term(T(), T()));
    const auto segment = [&](const T* from_a, const T* from_b, std::size_t count, T lift) {
        return sum<Value>(count, [=](std::size_t i) {
            // The lift is subtracted last: the difference of two turns is exact, a turn plus a lap need not be.
            return term((from_a[i] - from_b[i]) - lift, (from_a[i] - from_b[i + 1]) - lift);
        });
    };
    const T lift = static_cast<T>(laps);
    return segment(a, b + shift, n - shift, lift) + segment(a + (n - shift), b, shift, lift + T(1));
}

// The slope of C between the cuts k / n and (k + 1) / n, times n.
template <Real T, CostPower Power>
double equal_slope(const Atoms<T>& x, const Atoms<T>& y, double k, Power power) {
    return sum_matched(x, y, k, [=](T here, T next) { return power.difference(next, here); });
}

// The optimal cut.
template <Real T, CostPower Power>
double equal_cut(const Atoms<T>& x, const Atoms<T>& y, const InitialCut& start, Power power) {
    const auto n = static_cast<double>(x.size());
    const auto piece_at = [&](double k, double, double) { return Piece{k, k + 1.0, equal_slope(x, y, k, power)}; };
    return least_point(-n, n, start.in_units(n), piece_at) / n;
}

// C at a cut, a multiple of 1 / n.
template <Real T, CostPower Power>
double equal_cost(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power) {
    const auto n = static_cast<double>(x.size());
    const double k = std::round(cut * n);
    return sum_matched(x, y, k, [=](T here, T) { return power(here); }) / n;
}

// ---- all cases ----

// How two measures are matched.
enum class Matching {
    equal,    // n = m and no weights: atom to atom
    unequal,  // no weights: levels are multiples of 1 / (n m)
    general,  // by cumulative masses
};

// The case of n and m atoms.
inline Matching matching_of(std::size_t n, std::size_t m, bool weights) {
    if (weights) return Matching::general;
    if (n == m) return Matching::equal;
    return fits_unequal_sizes(n, m) ? Matching::unequal : Matching::general;
}

// Two sorted measures. They must have masses for `Matching::general`.
template <Real T>
struct Pairing {
    const Atoms<T>&x, &y;
    Matching matching;
    CutMemory& memory;

    template <CostPower Power>
    double cut(Power power) const {
        return cut_from(initial_cut(x, y), power);
    }
    template <CostPower Power>
    double cut_from(const InitialCut& start, Power power) const {
        if (matching == Matching::equal) return equal_cut(x, y, start, power);
        if (matching == Matching::unequal) return unequal_cut(x, y, start, power, memory);
        return general_cut(x, y, start, power, memory);
    }
    template <CostPower Power>
    double cost(double cut, Power power) const {
        if (matching == Matching::equal) return equal_cost(x, y, cut, power);
        if (matching == Matching::unequal) return unequal_cost(x, y, cut, power);
        return general_cost(x, y, cut, power, memory);
    }
};

}  // namespace sphereot
