// Optimal transport on the circle between a sorted discrete measure and the uniform one.
//
// With masses A_i the cost of the cut alpha is the sum over atoms of the integral over (A_{i-1}, A_i] of
// |x_i - alpha - t|^p dt, smooth and convex in alpha. For p = 2 its minimum is Proposition 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>

#include "circle/atoms.hpp"
#include "circle/powers.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"
#include "support/sum.hpp"

namespace sphereot {

// The optimal cut for p = 2, mean(x) - 1/2 (Proposition 1, with weights).
template <Real T>
double uniform_cut(const Atoms<T>& x, HalfPower<4>, Watch&) {
    return x.mean() - 0.5;
}

// W_2^2 at the cut alpha, as a sum of squares about the middle of each atom's levels: in the closed form of Proposition
// 1 numbers that are close to each other are subtracted. The variance of a uniform variable of width w is w^2 / 12.
template <Real T>
double uniform_square_cost(const Atoms<T>& x, double alpha) {
    const T* turn = x.turns().data();
    if (!x.has_masses()) {
        const double weight = 1.0 / static_cast<double>(x.size());
        const double spread = sum<double>(x.size(), [=](std::size_t i) {
            const double offset = turn[i] - alpha - (static_cast<double>(i) + 0.5) * weight;
            return offset * offset;
        });
        return weight * (spread + weight / 12.0);
    }
    const double* mass = x.masses().data();
    return sum<double>(x.size(), [=](std::size_t i) {
        const double weight = mass[i + 1] - mass[i], offset = turn[i] - alpha - 0.5 * (mass[i] + mass[i + 1]);
        return weight * (offset * offset + weight * weight / 12.0);
    });
}

// The sum over atoms of term(first, last), the displacements x_i - alpha - t at both ends of the atom's levels.
template <Real T, std::invocable<double, double> Term>
double sum_shares(const Atoms<T>& x, double alpha, Term term) {
    const T* turn = x.turns().data();
    const double* mass = x.masses().data();
    return sum<double>(x.size(),
                       [=](std::size_t i) { return term(turn[i] - alpha - mass[i], turn[i] - alpha - mass[i + 1]); });
}

// The optimal cut for any p: Newton's method on the increasing derivative, in a bracket that is bisected when Newton's
// method is slow. It ends when no number is left in the bracket, or a step does not change the cut. For p = 1 the
// derivative is piecewise affine, and the result is the median of F^-1(t) - t. Requires masses.
template <Real T, CostPower Power>
double uniform_cut(const Atoms<T>& x, Power power, Watch& watch) {
    const auto total = [&](double alpha, auto term) { return sum_shares(x, alpha, term); };
    constexpr int max_slow_steps = 3;
    // Outside [-1, 1] every atom lies on one side of its share of the uniform measure.
    double low = -1.0, high = 1.0, alpha = x.mean() - 0.5;
    int slow_steps = 0;
    while (low < alpha && alpha < high) {
        watch.pass(x.size());  // orders above 4 may take tens of steps
        const double width = high - low;
        const double slope = total(alpha, [=](double first, double last) { return power.difference(last, first); });
        if (slope == 0.0) break;
        (slope < 0.0 ? low : high) = alpha;
        slow_steps = high - low > 0.5 * width ? slow_steps + 1 : 0;
        const double curvature =
            total(alpha, [=](double first, double last) { return power.derivative(first) - power.derivative(last); });
        const double newton = alpha - slope / curvature;
        if (newton == alpha) break;
        if (low < newton && newton < high && slow_steps < max_slow_steps) {
            alpha = newton;
        } else {
            alpha = low + 0.5 * (high - low);  // equals low or high, and ends the loop, when no number lies between
            slow_steps = 0;
        }
    }
    return alpha;
}

// The cost of the cut alpha. Requires masses, except for p = 2.
template <Real T, CostPower Power>
double uniform_cost(const Atoms<T>& x, double alpha, Power power) {
    if constexpr (std::is_same_v<Power, HalfPower<4>>) {
        return uniform_square_cost(x, alpha);
    } else {
        return sum_shares(x, alpha, [=](double first, double last) { return power.integral(last, first); });
    }
}

}  // namespace sphereot
