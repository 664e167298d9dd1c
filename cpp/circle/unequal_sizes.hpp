// Transport between n and m atoms, of equal weight within each measure.
//
// In units of 1 / (n m) all levels are integers, and the atom of x at a level is found by a division: no table of
// masses is searched, and the loop vectorizes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "circle/atoms.hpp"
#include "circle/cut_search.hpp"
#include "circle/powers.hpp"
#include "support/real.hpp"

namespace sphereot {

// Whether levels in units of 1 / (n m) are exact in doubles, and indices fit in 32 bits.
inline bool fits_unequal_sizes(std::size_t n, std::size_t m) {
    constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
    return n < most && m < most && static_cast<double>(n) * static_cast<double>(m) < mass_units;
}

// The slope of C as in `GeneralSlope`: the cost of the jumps of G^-1 at the levels j / m for the x matched there.
template <Real T, CostPower Power>
class UnequalSlope {
public:
    UnequalSlope(const Atoms<T>& x, const Atoms<T>& y, Power power)
        : a_(x.turns().data()),
          b_(y.turns().data()),
          n_(static_cast<double>(x.size())),
          m_(static_cast<double>(y.size())),
          power_(power) {}

    Piece operator()(double k, double, double) const {
        const double whole = n_ * m_;
        double slope = 0.0, to_left = whole, to_right = whole;
        double lap = std::ceil((n_ - k) / whole) - 1.0;
        for (double j = 1.0; j <= m_; lap += 1.0) {
            const double from = k + lap * whole;  // levels j n - from lie in (0, n m] until the next lap begins
            const double end = std::min(std::floor((from + whole) / n_), m_) + 1.0;
            add(j, end, from, static_cast<T>(lap), slope, to_left, to_right);
            j = std::max(j, end);
        }
        return {k - to_left, k + to_right, slope};
    }

private:
    // Adds the levels of y in [begin, end), which lie in one lap.
    void add(double begin, double end, double from, T lift, double& slope, double& to_left, double& to_right) const {
        const T *a = a_, *b = b_;
        const double n = n_, m = m_;
        const Power power = power_;
        const auto first = static_cast<std::int32_t>(begin), last = static_cast<std::int32_t>(end);
        double total = 0.0, left = to_left, right = to_right;
#pragma omp simd reduction(+ : total) reduction(min : left, right)
        for (std::int32_t j = first; j < last; ++j) {
            const double level = static_cast<double>(j) * n - from;
            const auto i = static_cast<std::int32_t>((level - 1.0) / m);
            const double past = level - static_cast<double>(i) * m;
            left = std::min(left, m - past);
            right = std::min(right, past);
            total += static_cast<double>(power.difference((a[i] - b[j]) + lift, (a[i] - b[j - 1]) + lift));
        }
        slope += total;
        to_left = left;
        to_right = right;
    }

    const T *a_, *b_;
    double n_, m_;
    Power power_;
};

// C at a cut of k units. Requires n >= m: an atom of x is then matched with one or two atoms of y.
template <Real T, CostPower Power>
double unequal_cost(const Atoms<T>& x, const Atoms<T>& y, double k, Power power) {
    const T *a = x.turns().data(), *b = y.turns().data();
    const auto n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
    const double whole = n * m;
    double cost = 0.0, lap = std::floor(k / whole);
    for (double i = 0.0; i < n; lap += 1.0) {
        const double from = k - lap * whole;  // atom i begins at level i m + from of y, in [0, n m) until the next lap
        const double end = std::min(std::ceil((whole - from) / m), n);
        const T lift = static_cast<T>(lap);
        const auto first = static_cast<std::int32_t>(i), last = static_cast<std::int32_t>(end);
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (std::int32_t index = first; index < last; ++index) {
            const double level = static_cast<double>(index) * m + from;
            const auto j = static_cast<std::int32_t>(level / n);
            const double with_first = std::min((static_cast<double>(j) + 1.0) * n - level, m);
            total += with_first * static_cast<double>(power((a[index] - b[j]) - lift)) +
                     (m - with_first) * static_cast<double>(power((a[index] - b[j + 1]) - lift));
        }
        cost += total;
        i = std::max(i, end);
    }
    return cost / whole;
}

// W_p^p. The time of a slope is that of the second measure, so the smaller one is taken for it.
template <Real T, CostPower Power>
double least_unequal_cost(const Atoms<T>& x, const Atoms<T>& y, const InitialCut& start, Power power) {
    if (x.size() < y.size())
        return least_unequal_cost(y, x, InitialCut{-start.point, start.curvature, start.kink}, power);
    const double units = static_cast<double>(x.size()) * static_cast<double>(y.size());
    const double cut = least_point(-units, units, start.in_units(units), UnequalSlope<T, Power>(x, y, power));
    return unequal_cost(x, y, cut, power);
}

}  // namespace sphereot
