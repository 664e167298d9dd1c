// Optimal transport on the circle between a sorted discrete measure and the uniform one.
//
// With masses A_i the cost of the cut alpha is the sum over atoms of the integral over (A_{i-1}, A_i] of
// |x_i - alpha - t|^p dt, smooth and convex in alpha. For p = 2 its minimum is Proposition 1.
#pragma once

#include <cmath>
#include <cstddef>

#include "atoms.hpp"
#include "powers.hpp"
#include "sums.hpp"

namespace sphereot {

// Proposition 1, weighted: the cut is mean(x) - 1/2. The sum is over squares about the middle of each atom's levels,
// where the closed form of the paper subtracts numbers close to each other.
template <class T>
double uniform_cut(const Atoms<T>& x, HalfPower<4>) {
    return x.mean() - 0.5;
}

template <class T>
double uniform_cost(const Atoms<T>& x, double alpha, HalfPower<4>) {
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

// sum over atoms of term(first, last): the displacements x_i - alpha - t at both ends of the atom's levels.
template <class T, class Term>
double sum_shares(const Atoms<T>& x, double alpha, Term term) {
    const T* turn = x.turns().data();
    const double* mass = x.masses().data();
    return sum<double>(x.size(), [=](std::size_t i) {
        return term(turn[i] - alpha - mass[i], turn[i] - alpha - mass[i + 1]);
    });
}

// Any p: Newton's method on the derivative, which increases, kept inside a bracket that is halved when Newton is slow.
// It ends when no number is left between, or the step no longer moves the cut. For p = 1 the derivative is piecewise affine, and Newton lands on the
// median of F^-1(t) - t.
template <class T, class Power>
double uniform_cut(const Atoms<T>& x, Power power) {
    const auto total = [&](double alpha, auto term) { return sum_shares(x, alpha, term); };
    // Outside [-1, 1] every atom lies on one side of its share of the uniform measure.
    double low = -1.0, high = 1.0, alpha = x.mean() - 0.5;
    int slow_steps = 0;
    while (low < alpha && alpha < high) {
        const double width = high - low;
        const double slope = total(alpha, [=](double first, double last) { return power.difference(last, first); });
        if (slope == 0.0) break;
        (slope < 0.0 ? low : high) = alpha;
        slow_steps = high - low > 0.5 * width ? slow_steps + 1 : 0;
        const double curvature =
            total(alpha, [=](double first, double last) { return power.derivative(first) - power.derivative(last); });
        const double newton = alpha - slope / curvature;
        if (newton == alpha) break;
        if (low < newton && newton < high && slow_steps < 3) {
            alpha = newton;
        } else {
            alpha = low + 0.5 * (high - low);  // equal to low or high when no number lies between: the end
            slow_steps = 0;
        }
    }
    return alpha;
}

template <class T, class Power>
double uniform_cost(const Atoms<T>& x, double alpha, Power power) {
    return sum_shares(x, alpha, [=](double first, double last) { return power.integral(last, first); });
}

}  // namespace sphereot
