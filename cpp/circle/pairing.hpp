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
#include "circle/cut_search.hpp"
#include "circle/powers.hpp"
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

// Calls visit(x_i - Y_{i+k}, x_i - Y_{i+k+1}) for each i in order.
template <Real T, std::invocable<T, T> Visit>
void for_each_matched(const Atoms<T>& x, const Atoms<T>& y, double k, Visit visit) {
    const std::size_t n = x.size();
    const double laps = std::floor(k / static_cast<double>(n));
    const auto shift = static_cast<std::size_t>(k - laps * static_cast<double>(n));
    const T *a = x.turns().data(), *b = y.turns().data();
    for (std::size_t i = 0; i < n; ++i) {
        const bool lifted = i >= n - shift;
        const std::size_t j = lifted ? i - (n - shift) : i + shift;
        const T lift = static_cast<T>(laps) + (lifted ? T(1) : T(0));
        visit((a[i] - b[j]) - lift, (a[i] - b[j + 1]) - lift);
    }
}

// The slope of C between the cuts k / n and (k + 1) / n, times n.
template <Real T, CostPower Power>
double equal_slope(const Atoms<T>& x, const Atoms<T>& y, double k, Power power) {
    if constexpr (is_large<Power>) {
        LargeTotal total(power);
        for_each_matched(x, y, k, [&](T here, T next) { total.add_difference(next, here); });
        return total.slope();
    } else {
        return sum_matched(x, y, k, [=](T here, T next) { return power.difference(next, here); });
    }
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
Total<Power> equal_cost(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power) {
    const auto n = static_cast<double>(x.size());
    const double k = std::round(cut * n);
    if constexpr (is_large<Power>) {
        LargeTotal total(power);
        for_each_matched(x, y, k, [&](T here, T) { total.add(1.0, here); });
        total.divide(n);
        return total;
    } else {
        return {power, sum_matched(x, y, k, [=](T here, T) { return power(here); }) / n};
    }
}

// ---- any sizes and weights ----

// The slope of C. C'(alpha) is a sum over the levels B_j, where G^-1 jumps from y_j to y_{j+1}, of the cost of the jump
// for the x matched at that level. A piece ends where one of these levels meets a level of x. Requires masses.
template <Real T, CostPower Power>
class GeneralSlope {
public:
    GeneralSlope(const Atoms<T>& x, const Atoms<T>& y, Power power)
        : x_(x),
          a_(x.turns().data()),
          b_(y.turns().data()),
          A_(x.masses().data()),
          B_(y.masses().data()),
          m_(y.size()),
          settled_{power} {}

    // The piece at a cut of k units, cut off at [lowest, highest], which must contain the optimal cut.
    Piece operator()(double k, double lowest, double highest) {
        const double alpha = k / mass_units, low = lowest / mass_units, high = highest / mass_units;
        if ((high - low) * static_cast<double>(x_.size()) < settle_below_) settle(low, high);
        Total<Power> slope = settled_;
        double to_left = alpha - low, to_right = high - alpha;
        for_each_open(alpha, [&](std::size_t j, double lap) {
            const double level = std::min(B_[j] - alpha - lap, 1.0);
            const std::size_t i = x_.atom_at(level);
            to_left = std::min(to_left, A_[i + 1] - level);
            to_right = std::min(to_right, level - A_[i]);
            add_jump(i, j, lap, slope);
        });
        return {(alpha - to_left) * mass_units, (alpha + to_right) * mass_units, slope.slope()};
    }

private:
    void add_jump(std::size_t i, std::size_t j, double lap, Total<Power>& slope) const {
        const T lift = static_cast<T>(lap);
        slope.add_difference((a_[i] - b_[j]) + lift, (a_[i] - b_[j - 1]) + lift);
    }

    double lap_of(std::size_t j, double alpha) const { return std::ceil(B_[j] - alpha) - 1.0; }

    // Calls work(j, lap) for each open level, with B_j - alpha - lap in (0, 1].
    template <std::invocable<std::size_t, double> Work>
    void for_each_open(double alpha, Work work) const {
        if (all_open_) {
            double lap = lap_of(1, alpha);
            for (std::size_t j = 1; j <= m_; lap += 1.0) {
                const double* end = std::upper_bound(B_ + j, B_ + m_ + 1, alpha + lap + 1.0);
                for (; j < static_cast<std::size_t>(end - B_); ++j) work(j, lap);
            }
        } else {
            for (const std::uint32_t j : open_) work(j, lap_of(j, alpha));
        }
    }

    // Late in the search most levels are matched with the same x for every cut in [low, high]: their part of the slope
    // is summed once, and the others stay open.
    void settle(double low, double high) {
        std::vector<std::uint32_t> still_open;
        for_each_open(high, [&](std::size_t j, double lap) {
            const std::size_t i = x_.atom_at(std::min(B_[j] - high - lap, 1.0));
            if (B_[j] - low - lap <= A_[i + 1]) add_jump(i, j, lap, settled_);
            else still_open.push_back(static_cast<std::uint32_t>(j));
        });
        open_ = std::move(still_open);
        all_open_ = false;
        settle_below_ = next_settle * (high - low) * static_cast<double>(x_.size());
    }

    const Atoms<T>& x_;
    const T *a_, *b_;
    const double *A_, *B_;
    std::size_t m_;
    Total<Power> settled_;  // the part of the slope of the levels that are not open

    bool all_open_ = true;
    std::vector<std::uint32_t> open_;
    // Width of the bracket, in mean masses of x, below which levels are settled (again).
    double settle_below_ = 0.25;
    static constexpr double next_settle = 0.125;
};

// Large orders ignore masses up to this. Sums of weights are rounded, so that levels that should meet differ by a trace
// of mass, which is matched with the wrong atom; for a large order its cost, mass times distance^p, may exceed all
// others.
inline constexpr double mass_trace = 0x1p-40;

// The optimal cut. Requires masses.
template <Real T, CostPower Power>
double general_cut(const Atoms<T>& x, const Atoms<T>& y, const InitialCut& start, Power power) {
    if constexpr (is_large<Power>) {
        // Cuts are multiples k of the trace. Slopes are taken between them, away from levels that should meet.
        constexpr double units = mass_units * mass_trace, count = 1.0 / mass_trace;
        GeneralSlope<T, Power> slope(x, y, power);
        const auto piece_at = [&](double k, double lowest, double highest) {
            const Piece piece = slope((k + 0.5) * units, lowest * units, highest * units);
            return Piece{std::ceil(piece.left / units - 0.5), std::floor(piece.right / units - 0.5) + 1.0, piece.slope};
        };
        return least_point(-count, count, start.in_units(count), piece_at) * mass_trace;
    } else {
        // Masses are multiples of the unit, and so is every breakpoint.
        const GeneralSlope<T, Power> slope(x, y, power);
        return least_point(-mass_units, mass_units, start.in_units(mass_units), slope) / mass_units;
    }
}

// Iterates over the pieces of mass of the atoms [begin, end) of x, each with its atom of y, at level + cut.
template <Real T>
class LevelWalk {
public:
    LevelWalk(const Atoms<T>& x, const Atoms<T>& y, double cut, std::size_t begin, std::size_t end)
        : a_(x.turns().data()),
          b_(y.turns().data()),
          A_(x.masses().data()),
          B_(y.masses().data()),
          m_(y.size()),
          i_(begin),
          end_(end),
          level_(A_[begin]) {
        const double lap = std::ceil(level_ + cut) - 1.0;
        // The first y is the one at the level just above.
        const double above = level_ + cut - lap;
        j_ = static_cast<std::size_t>(std::upper_bound(B_ + 1, B_ + m_, above) - B_) - 1;
        lift_ = static_cast<T>(lap);
        offset_ = lap - cut;
    }

    bool done() const { return i_ == end_; }

    // Calls visit(i, j, mass, displacement) for the next piece of mass.
    template <std::invocable<std::size_t, std::size_t, double, T> Visit>
    void step(Visit visit) {
        const double x_ends = A_[i_ + 1], y_ends = B_[j_ + 1] + offset_;
        const bool x_first = x_ends <= y_ends;
        const double next = x_first ? x_ends : y_ends;
        visit(i_, j_, next - level_, (a_[i_] - b_[j_]) - lift_);
        level_ = next;
        i_ += x_first;
        j_ += !x_first;
        if (j_ == m_) {
            j_ = 0;
            lift_ += T(1);
            offset_ += 1.0;
        }
    }

private:
    const T *a_, *b_;
    const double *A_, *B_;
    std::size_t m_, i_, j_, end_;
    double level_, offset_;
    T lift_;
};

// Visits all pieces of the matching at a cut. Each step of a walk depends on the one before, so two walks are
// interleaved, for the two halves of x; each has its own visitor, so that their sums do not depend on each other
// either.
template <Real T, std::invocable<std::size_t, std::size_t, double, T> Visit>
void walk_levels(const Atoms<T>& x, const Atoms<T>& y, double cut, Visit visit_first, Visit visit_second) {
    const std::size_t n = x.size(), half = n / 2;
    LevelWalk<T> first(x, y, cut, 0, half), second(x, y, cut, half, n);
    while (!first.done() && !second.done()) {
        first.step(visit_first);
        second.step(visit_second);
    }
    while (!first.done()) first.step(visit_first);
    while (!second.done()) second.step(visit_second);
}

// C at a cut. Requires masses.
template <Real T, CostPower Power>
Total<Power> general_cost(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power) {
    Total<Power> first{power}, second{power};
    const auto add_to = [](Total<Power>& cost) {
        return [&cost](std::size_t, std::size_t, double mass, T displacement) {
            if (!is_large<Power> || mass > mass_trace) cost.add(mass, displacement);
        };
    };
    walk_levels(x, y, cut, add_to(first), add_to(second));
    first.add(second);
    return first;
}

// ---- both cases ----

// Two sorted measures. They must have masses unless `equal`.
template <Real T>
struct Pairing {
    const Atoms<T>&x, &y;
    bool equal;  // n = m and no weights

    template <CostPower Power>
    double cut(Power power) const {
        return cut_from(initial_cut(x, y), power);
    }
    template <CostPower Power>
    double cut_from(const InitialCut& start, Power power) const {
        return equal ? equal_cut(x, y, start, power) : general_cut(x, y, start, power);
    }
    template <CostPower Power>
    Total<Power> cost(double cut, Power power) const {
        return equal ? equal_cost(x, y, cut, power) : general_cost(x, y, cut, power);
    }
};

}  // namespace sphereot
