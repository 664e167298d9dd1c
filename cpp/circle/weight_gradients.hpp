// Gradients of the cost on one circle in the weights of the first measure: its dual potential phi.
//
// Outputs are in input order and require sort_with_indices.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "support/real.hpp"

namespace sphereot {

// Adds the derivatives by weight to `out`, from the potentials phi of the sorted atoms. Weights are scaled to a total
// of 1, so the derivative is phi minus its mean, over the total.
template <Real T>
void add_weight_gradient(const Atoms<T>& x, const std::vector<double>& phi, double share, double* out) {
    const double* mass = x.masses().data();
    double mean = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) mean += (mass[i + 1] - mass[i]) * phi[i];
    for (std::size_t i = 0; i < x.size(); ++i) out[x.source_index(i)] += share * (phi[i] - mean) / x.total_weight();
}

// The atoms of y below and above a level of x, with the laps by which they are lifted. They are one and the same atom
// unless a level of y meets that of x.
struct Neighbors {
    std::size_t lower, upper;
    double lower_lap, upper_lap;
    bool meet;
};

// The neighbors of a level of x in (0, 1], which lies in atom j of y. Levels that differ by less than `same_level`
// meet.
template <Real T>
Neighbors neighbors_in(const Atoms<T>& y, std::size_t j, double level, double lap, double same_level) {
    const std::size_t m = y.size();
    const double* B = y.masses().data();
    if (B[j + 1] - level < same_level) {
        const bool last = j + 1 == m;
        return {j, last ? 0 : j + 1, lap, last ? lap + 1.0 : lap, true};
    }
    if (level - B[j] < same_level) return {j > 0 ? j - 1 : m - 1, j, j > 0 ? lap : lap - 1.0, lap, true};
    return {j, j, lap, lap, false};
}

// Adds the gradient in the weights of x. Requires masses.
//
// phi + psi equals the cost on matched pairs, so the potentials of neighbors x_i, x_{i+1} that share a y differ by the
// difference of their costs to it. Where a level of x meets a level of y (one does at the cut, many do at equal
// weights) two y can be taken for the shared one, the lower and the upper. Around the circle the differences must sum
// to 0. The sums with all lower and with all upper have opposite signs, because the cut is optimal; so if one after the
// other is switched from lower to upper, the sum passes 0 at some level, the seam. There no y is shared, and the chain
// of differences begins behind it.
template <Real T, CostPower Power>
void general_weight_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, CutMemory& memory,
                             double share, double* out) {
    const std::size_t n = x.size();
    const T *a = x.turns().data(), *b = y.turns().data();
    const double* A = x.masses().data();
    // The cost of turn `one` to an atom of y minus that of turn `other`.
    const auto cost_difference = [=](T one, T other, std::size_t j, double lap) {
        const T lift = static_cast<T>(lap);
        return static_cast<double>(power.difference((one - b[j]) - lift, (other - b[j]) - lift));
    };
    constexpr double same_level = 1e-13;  // the accuracy of sums of weights
    // The level A[i + 1], seen by y.
    const ShiftedLevels shifted = shift_levels(x, -cut, memory.levels);
    memory.ranks.resize(n);
    rank_levels(y.masses().data(), y.size(), memory.levels.data(), n, memory.ranks.data());
    const auto neighbors_of = [&](std::size_t i) {
        const bool before_lap = i >= shifted.first;
        const std::size_t r = before_lap ? i - shifted.first : shifted.before_lap + i;
        const double lap = before_lap ? -shifted.lap : -shifted.lap - 1.0;
        return neighbors_in(y, memory.ranks[r], memory.levels[r], lap, same_level);
    };
    std::vector<double> step(n), upper(n);
    std::vector<std::uint32_t> meetings;
    double around = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        const Neighbors near = neighbors_of(i);
        step[i] = cost_difference(a[i + 1], a[i], near.lower, near.lower_lap);
        if (near.meet) {
            meetings.push_back(static_cast<std::uint32_t>(i));
            upper[i] = cost_difference(a[i + 1], a[i], near.upper, near.upper_lap);
        }
        around += step[i];
    }
    std::size_t seam = meetings.empty() ? n - 1 : meetings.back();
    const bool positive = around > 0.0;
    for (const std::uint32_t i : meetings) {
        around += upper[i] - step[i];
        if ((around > 0.0) != positive || around == 0.0) {
            seam = i;
            break;
        }
        step[i] = upper[i];
    }
    std::vector<double> phi(n);
    std::size_t i = (seam + 1) % n;
    for (std::size_t count = 1; count < n; ++count) {
        const std::size_t next = (i + 1) % n;
        phi[next] = phi[i] + step[i];
        i = next;
    }
    // An atom without mass is in no pair. Its potential is the cost of its first mass, matched with the partner of the
    // atom before it or of the one behind, whichever is less.
    const auto empty = [=](std::size_t k) { return A[k + 1] == A[k]; };
    for (std::size_t k = 0; k < n; ++k) {
        if (!empty(k)) continue;
        std::size_t before = k, behind = k;
        T before_lap = T(0), behind_lap = T(0);
        do {
            before_lap -= before == 0 ? T(1) : T(0);
            before = (before + n - 1) % n;
        } while (empty(before));
        do {
            behind = (behind + 1) % n;
            behind_lap += behind == 0 ? T(1) : T(0);
        } while (empty(behind));
        const Neighbors near = neighbors_of(k);
        phi[k] = std::min(phi[before] + cost_difference(a[k], a[before] + before_lap, near.lower, near.lower_lap),
                          phi[behind] + cost_difference(a[k], a[behind] + behind_lap, near.upper, near.upper_lap));
    }
    add_weight_gradient(x, phi, share, out);
}

// The same against the uniform measure.
template <Real T, CostPower Power>
void uniform_weight_gradient(const Atoms<T>& x, double alpha, Power power, double share, double* out) {
    const T* turn = x.turns().data();
    const double* mass = x.masses().data();
    std::vector<double> phi(x.size());
    for (std::size_t i = 0; i + 1 < x.size(); ++i)
        phi[i + 1] = phi[i] + power.difference(turn[i + 1] - alpha - mass[i + 1], turn[i] - alpha - mass[i + 1]);
    add_weight_gradient(x, phi, share, out);
}

}  // namespace sphereot
