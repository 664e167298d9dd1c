// Transport between n and m atoms, of equal weight within each measure.
//
// In units of 1 / (n m) all levels are integers, and the atom of x at a level is found by a product with 1 / m: no
// table of masses is searched, and the loop vectorizes.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

#include "circle/atoms.hpp"
#include "circle/breakpoints.hpp"
#include "circle/cut_search.hpp"
#include "circle/powers.hpp"
#include "support/real.hpp"

namespace sphereot {

// Whether indices fit in 32 bits and the functions below are exact: a level plus 1/2, times a rounded 1 / m, is then
// nearer to its exact value than that is to an integer.
inline bool fits_unequal_sizes(std::size_t n, std::size_t m) {
    constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
    constexpr double most_levels = 0x1p50;
    return n < most && m < most && static_cast<double>(n) * static_cast<double>(m) < most_levels;
}

// The slope of C as in `GeneralSlope`: the cost of the jumps of G^-1 at the levels j / m for the x matched there.
template <Real T, CostPower Power>
class UnequalSlope {
public:
    // `curvature`: as in `CutDistance`, with lengths in units.
    UnequalSlope(const Atoms<T>& x, const Atoms<T>& y, double curvature, Power power, CutMemory& memory)
        : memory_(memory),
          jump_cost_{x.turns().data(), y.turns().data(), power},
          n_(static_cast<double>(x.size())),
          m_(static_cast<double>(y.size())),
          divisor_(static_cast<double>(std::gcd(x.size(), y.size()))),
          distance_(curvature) {}

    // As in `GeneralSlope`.
    Piece operator()(double k, double low, double high) {
        double slope = 0.0, to_left = n_ * m_, to_right = n_ * m_;
        for_each_lap(k, [&](std::int32_t first, std::int32_t last, double from, double lap) {
            add(first, last, from, static_cast<T>(lap), slope, to_left, to_right);
        });
        const double window = std::min(window_for(k, slope), slope < 0.0 ? high - k : k - low);
        if (slope != 0.0 && window > (slope < 0.0 ? to_right : to_left)) {
            const std::size_t count = collect_crossings(k, slope, window);
            const auto n = static_cast<std::size_t>(n_);
            const auto result =
                pass_breakpoints(jump_cost_, n, memory_, count, slope, window, [m = m_](std::size_t) { return m; });
            if (result.kind == WindowResult::Kind::minimum) return {k + result.value, k + result.value, 0.0};
            if (result.kind == WindowResult::Kind::slope) {
                slope = result.value;
                (slope < 0.0 ? to_right : to_left) = window;
            }
        }
        return {k - to_left, k + to_right, slope};
    }

private:
    // Calls work(first, last, from, lap) for ranges of levels j of one lap: those with j n - from in (0, n m].
    template <std::invocable<std::int32_t, std::int32_t, double, double> Work>
    void for_each_lap(double k, Work work) const {
        const double whole = n_ * m_;
        double lap = std::ceil((n_ - k) / whole) - 1.0;
        for (double j = 1.0; j <= m_; lap += 1.0) {
            const double from = k + lap * whole;
            const double end = std::min(std::floor((from + whole) / n_), m_) + 1.0;
            work(static_cast<std::int32_t>(j), static_cast<std::int32_t>(end), from, lap);
            j = std::max(j, end);
        }
    }

    // Adds the levels of y in [first, last).
    void add(std::int32_t first, std::int32_t last, double from, T lift, double& slope, double& to_left,
             double& to_right) const {
        const T *a = jump_cost_.a, *b = jump_cost_.b;
        const double n = n_, m = m_, inverse = 1.0 / m_;
        const Power power = jump_cost_.power;
        double total = 0.0, left = to_left, right = to_right;
#pragma omp simd reduction(+ : total) reduction(min : left, right)
        for (std::int32_t j = first; j < last; ++j) {
            const double level = static_cast<double>(j) * n - from;
            const auto i = static_cast<std::int32_t>((level - 0.5) * inverse);
            const double past = level - static_cast<double>(i) * m;
            left = std::min(left, m - past);
            right = std::min(right, past);
            total += static_cast<double>(power.difference((a[i] - b[j]) + lift, (a[i] - b[j - 1]) + lift));
        }
        slope += total;
        to_left = left;
        to_right = right;
    }

    // How far from a cut to look at breakpoints; 0 where another slope is cheaper: far from the minimum, and where
    // many levels meet and few pieces are left.
    double window_for(double k, double slope) {
        constexpr double widening = 1.5, least = 0.02, most = 0.2, least_pieces = 8.0;  // masses are those of x
        const double window = std::ceil(widening * distance_(k, slope) + least * m_);
        return window <= most * m_ && window >= least_pieces * divisor_ ? window : 0.0;
    }

    // Writes the first crossings of levels in a window, and returns their number.
    std::size_t collect_crossings(double k, double slope, double window) {
        constexpr std::int32_t block = 256;
        auto& crossings = memory_.crossings;
        const auto most = static_cast<std::size_t>(m_) + 1;
        if (crossings.size() < most) crossings.resize(most);
        std::size_t count = 0;
        for_each_lap(k, [&](std::int32_t first, std::int32_t last, double from, double lap) {
            double distances[block];
            std::int32_t atoms[block], kept[block + 1];
            for (; first < last; first += block) {
                const std::int32_t size = std::min(block, last - first);
                write_distances(first, size, from, slope < 0.0, distances, atoms);
                std::int32_t near = 0;
                for (std::int32_t j = 0; j < size; ++j) {  // without a branch: what is not kept is overwritten
                    kept[near] = j;
                    near += distances[j] < window;
                }
                for (std::int32_t c = 0; c < near; ++c) {
                    const std::int32_t j = kept[c];
                    crossings[count++] = {distances[j], static_cast<std::int64_t>(lap * n_) + atoms[j],
                                          static_cast<std::uint32_t>(first + j)};
                }
            }
        });
        return count;
    }

    void write_distances(std::int32_t first, std::int32_t count, double from, bool to_right, double* distances,
                         std::int32_t* atoms) const {
        const double n = n_, m = m_, inverse = 1.0 / m_;
        for (std::int32_t j = 0; j < count; ++j) {
            const double level = static_cast<double>(first + j) * n - from;
            const auto i = static_cast<std::int32_t>((level - 0.5) * inverse);
            const double past = level - static_cast<double>(i) * m;
            distances[j] = to_right ? past : m - past;
            atoms[j] = i;
        }
    }

    CutMemory& memory_;
    JumpCost<T, Power> jump_cost_;
    double n_, m_, divisor_;  // every breakpoint is a multiple of the greatest common divisor of n and m
    CutDistance distance_;
};

inline InitialCut mirrored(const InitialCut& start) { return {-start.point, start.curvature, start.kink}; }

// The optimal cut. The time of a slope is that of the second measure, so the smaller one is taken for it.
template <Real T, CostPower Power>
double unequal_cut(const Atoms<T>& x, const Atoms<T>& y, const InitialCut& start, Power power, CutMemory& memory) {
    if (x.size() < y.size()) return -unequal_cut(y, x, mirrored(start), power, memory);
    const double units = static_cast<double>(x.size()) * static_cast<double>(y.size());
    UnequalSlope<T, Power> slope(x, y, known_curvature(start, power) / units, power, memory);
    const auto piece_at = [&](double k, double low, double high) { return slope(k, low, high); };
    return least_point(-units, units, start.in_units(units), piece_at) / units;
}

// Calls work(first, last, from, lap) for ranges of atoms of x that begin in one lap of y at a cut of k units: atom i
// begins at level i m + from of y, in [0, n m).
template <std::invocable<std::int32_t, std::int32_t, double, double> Work>
void for_each_lap_of_atoms(double n, double m, double k, Work work) {
    const double whole = n * m;
    double lap = std::floor(k / whole);
    for (double i = 0.0; i < n; lap += 1.0) {
        const double from = k - lap * whole;
        const double end = std::min(std::ceil((whole - from) / m), n);
        work(static_cast<std::int32_t>(i), static_cast<std::int32_t>(end), from, lap);
        i = std::max(i, end);
    }
}

// The cost, times n m, of the atoms [first, last) of x, where atom i begins at level i m + from of y. Each is matched
// with one or two atoms of y, since n >= m.
template <Real T, CostPower Power>
double cost_of_atoms(const T* a, const T* b, double n, double m, std::int32_t first, std::int32_t last, double from,
                     T lift, Power power) {
    const double inverse = 1.0 / n;
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (std::int32_t i = first; i < last; ++i) {
        const double level = static_cast<double>(i) * m + from;
        const auto j = static_cast<std::int32_t>((level + 0.5) * inverse);
        const double with_first = std::min((static_cast<double>(j) + 1.0) * n - level, m);
        total += with_first * static_cast<double>(power((a[i] - b[j]) - lift)) +
                 (m - with_first) * static_cast<double>(power((a[i] - b[j + 1]) - lift));
    }
    return total;
}

// C at a cut, a multiple of 1 / (n m).
template <Real T, CostPower Power>
double unequal_cost(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power) {
    if (x.size() < y.size()) return unequal_cost(y, x, -cut, power);
    const auto n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
    double cost = 0.0;
    for_each_lap_of_atoms(
        n, m, std::round(cut * n * m), [&](std::int32_t first, std::int32_t last, double from, double lap) {
            const T *a = x.turns().data(), *b = y.turns().data();
            cost += cost_of_atoms<T, Power>(a, b, n, m, first, last, from, static_cast<T>(lap), power);
        });
    return cost / (n * m);
}

}  // namespace sphereot
