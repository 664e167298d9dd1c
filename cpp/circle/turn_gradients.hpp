// Gradients of the cost on one circle in the turns of its atoms, by the envelope theorem: at a fixed cut.
//
// Outputs are in input order and require sort_with_indices.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "support/compiler.hpp"
#include "support/real.hpp"

namespace sphereot {

// Atoms whose gradients are computed at a time, in arrays on the stack.
inline constexpr std::size_t turn_block = 512;

// n atoms of equal weight in both measures.
template <Real T, CostPower Power>
void equal_turn_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, T* dx, T* dy) {
    const std::size_t n = x.size();
    const double k = std::round(cut * static_cast<double>(n)), laps = std::floor(k / static_cast<double>(n));
    const auto shift = static_cast<std::size_t>(k - laps * static_cast<double>(n));
    const T *a = x.turns().data(), *b = y.turns().data();
    const T share = T(1) / static_cast<T>(n);
    const auto segment = [&](std::size_t i, std::size_t j, std::size_t count, T lift) {
        for (; count > 0; --count, ++i, ++j) {
            const T slope = share * static_cast<T>(power.derivative((a[i] - b[j]) - lift));
            dx[x.source_index(i)] = slope;
            dy[y.source_index(j)] = -slope;
        }
    };
    const T lift = static_cast<T>(laps);
    segment(0, shift, n - shift, lift);
    segment(n - shift, 0, shift, lift + T(1));
}

// Any sizes and weights; also returns the cost. Requires masses.
template <Real T, CostPower Power>
double general_turn_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, CutMemory& memory, T* dx,
                             T* dy) {
    struct Sum {
        Power power;
        double *by_x, *by_y;
        double cost = 0.0;
        void operator()(std::size_t i, std::size_t j, double mass, T displacement) {
            const double slope = mass * static_cast<double>(power.derivative(displacement));
            by_x[i] += slope;
            by_y[j] -= slope;
            cost += mass * static_cast<double>(power(displacement));
        }
    };
    std::vector<double> by_x(x.size()), by_y(y.size());
    const Sum zero{power, by_x.data(), by_y.data()};
    std::array<Sum, merge_walks> sums{zero, zero, zero, zero};
    walk_levels(x, y, cut, memory, sums);
    for (std::size_t i = 0; i < x.size(); ++i) dx[x.source_index(i)] = static_cast<T>(by_x[i]);
    for (std::size_t j = 0; j < y.size(); ++j) dy[y.source_index(j)] = static_cast<T>(by_y[j]);
    for (std::size_t w = 1; w < merge_walks; ++w) sums[0].cost += sums[w].cost;
    return sums[0].cost;
}

// The slopes of the two parts of the atoms [begin, begin + count) of x, as in `cost_of_atoms`, and the first y of each.
// Returns their cost, times n m.
template <Real T, CostPower Power>
double slopes_of_atoms(const T* a, const T* b, double n, double m, std::int32_t begin, std::int32_t count, double from,
                       T lift, Power power, std::int32_t* partner, double* first, double* second) {
    const double inverse = 1.0 / n, share = 1.0 / (n * m);
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (std::int32_t i = 0; i < count; ++i) {
        const double level = static_cast<double>(begin + i) * m + from;
        const auto j = static_cast<std::int32_t>((level + 0.5) * inverse);
        const double with_first = std::min((static_cast<double>(j) + 1.0) * n - level, m);
        const T to_first = (a[begin + i] - b[j]) - lift, to_second = (a[begin + i] - b[j + 1]) - lift;
        total += with_first * static_cast<double>(power(to_first)) +
                 (m - with_first) * static_cast<double>(power(to_second));
        partner[i] = j;
        first[i] = share * with_first * static_cast<double>(power.derivative(to_first));
        second[i] = share * (m - with_first) * static_cast<double>(power.derivative(to_second));
    }
    return total;
}

// n and m atoms, of equal weight within each measure; also returns the cost.
template <Real T, CostPower Power>
double unequal_turn_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, T* dx, T* dy) {
    if (x.size() < y.size()) return unequal_turn_gradient(y, x, -cut, power, dy, dx);
    const auto n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
    const double k = std::round(cut * n * m), first_lap = std::floor(k / (n * m));
    // The y at level 0 of x is met again at level 1: sums begin with it and end with it.
    const double start = std::floor((k - first_lap * n * m) / n);
    std::vector<double> by_y(y.size() + 2);
    std::ptrdiff_t last = 0;
    double slope = 0.0, over = 0.0;  // of the second part of the atom of x before
    double cost = 0.0;
    for_each_lap_of_atoms(n, m, k, [&](std::int32_t begin, std::int32_t end, double from, double lap) {
        constexpr std::int32_t block = turn_block;
        std::int32_t partner[block];
        double first[block], second[block];
        const auto offset = static_cast<std::ptrdiff_t>((lap - first_lap) * m - start);
        for (; begin < end; begin += block) {
            const std::int32_t count = std::min(block, end - begin);
            cost += slopes_of_atoms<T, Power>(x.turns().data(), y.turns().data(), n, m, begin, count, from,
                                              static_cast<T>(lap), power, partner, first, second);
            for (std::int32_t i = 0; i < count; ++i) {
                SPHEREOT_NO_VECTORIZE;  // scatter instructions are slower than single stores
                dx[x.source_index(static_cast<std::size_t>(begin + i))] = static_cast<T>(first[i] + second[i]);
            }
            // The sum of an atom of y stays in a register until the next one begins; without a branch, since the
            // numbers of atoms of x per atom of y follow no pattern that a processor learns.
            double total = slope, part = over;
            double* out = by_y.data() + offset;
            std::ptrdiff_t j = last - offset;
            for (std::int32_t i = 0; i < count; ++i) {
                total = (partner[i] == j ? 1.0 : 0.0) * total - (part + first[i]);
                j = partner[i];
                out[j] = total;
                part = second[i];
            }
            slope = total;
            over = part;
            last = j + offset;
        }
    });
    by_y[static_cast<std::size_t>(last) + 1] -= over;
    by_y[0] += by_y[y.size()];
    const auto shift = static_cast<std::size_t>(start);
    for (std::size_t j = 0; j < y.size(); ++j) {
        const std::size_t r = j >= shift ? j - shift : j + y.size() - shift;
        dy[y.source_index(j)] = static_cast<T>(by_y[r]);
    }
    return cost / (n * m);
}

// Against the uniform measure, for equal weights and p = 2: twice the displacement of the middle of the atom's levels,
// times its weight.
template <Real T>
void equal_uniform_turn_gradient(const Atoms<T>& x, double alpha, T* dx) {
    const T* turn = x.turns().data();
    const double weight = 1.0 / static_cast<double>(x.size());
    T slopes[turn_block];
    for (std::size_t begin = 0; begin < x.size(); begin += turn_block) {
        const std::size_t count = std::min(turn_block, x.size() - begin);
        for (std::size_t i = 0; i < count; ++i) {
            const double level = (static_cast<double>(begin + i) + 0.5) * weight;
            slopes[i] = static_cast<T>(2.0 * weight * (turn[begin + i] - alpha - level));
        }
        for (std::size_t i = 0; i < count; ++i) {
            SPHEREOT_NO_VECTORIZE;  // scatter instructions are slower than single stores
            dx[x.source_index(begin + i)] = slopes[i];
        }
    }
}

// Against the uniform measure, for any weights and p. Requires masses.
template <Real T, CostPower Power>
void uniform_turn_gradient(const Atoms<T>& x, double alpha, Power power, T* dx) {
    const T* turn = x.turns().data();
    const double* mass = x.masses().data();
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double first = turn[i] - alpha - mass[i], last = turn[i] - alpha - mass[i + 1];
        dx[x.source_index(i)] = static_cast<T>(power.difference(first, last));
    }
}

}  // namespace sphereot
