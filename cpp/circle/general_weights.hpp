// The optimal cut between two measures of any sizes and weights.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circle/atoms.hpp"
#include "circle/breakpoints.hpp"
#include "circle/cut_search.hpp"
#include "circle/level_walk.hpp"
#include "circle/merge_path.hpp"
#include "circle/powers.hpp"
#include "support/real.hpp"

namespace sphereot {

// The slope of C. C'(alpha) is a sum over the levels B_j, where G^-1 jumps from y_j to y_{j+1}, of the cost of the jump
// for the x matched at that level. A piece ends where one of these levels meets a level of x. Requires masses.
template <Real T, CostPower Power>
class GeneralSlope {
public:
    // `curvature`: the growth of the slope near the minimum, or 0 if it is not known.
    GeneralSlope(const Atoms<T>& x, const Atoms<T>& y, double curvature, Power power, CutMemory& memory)
        : y_(y),
          memory_(memory),
          jump_cost_{x.turns().data(), y.turns().data(), power},
          A_(x.masses().data()),
          n_(x.size()),
          m_(y.size()),
          distance_(curvature) {
        memory.ranks.resize(m_);
    }

    // The piece at a cut of k units, cut off at [lowest, highest], which must contain the optimal cut. If the slope is
    // 0, every point of the piece is a minimum.
    Piece operator()(double k, double lowest, double highest) {
        const double alpha = k / mass_units, low = lowest / mass_units, high = highest / mass_units;
        const ShiftedLevels shifted = shift_levels(y_, alpha, memory_.levels);
        rank_levels(A_, n_, memory_.levels.data(), m_, memory_.ranks.data());
        const double slope = slope_of_all(shifted);
        const double window = std::min(window_for(alpha, slope), slope < 0.0 ? high - alpha : alpha - low);
        if (slope != 0.0 && window > 0.0) {
            const std::size_t count = collect_crossings(shifted, slope, window);
            const auto width = [A = A_](std::size_t i) { return A[i + 1] - A[i]; };
            const auto result = pass_breakpoints(jump_cost_, n_, memory_, count, slope, window, width);
            if (result.kind == WindowResult::Kind::minimum) {
                const double minimum = (alpha + result.value) * mass_units;
                return {minimum, minimum, 0.0};
            }
            if (result.kind == WindowResult::Kind::slope) {
                const double left = slope < 0.0 ? alpha : alpha - window;
                return {left * mass_units, (left + window) * mass_units, result.value};
            }
            most_window_ *= 0.25;
        }
        return piece_of_all(alpha, low, high, slope);
    }

private:
    // Calls work(begin, end, j, lift) for the two ranges of shifted levels; j is that of the first level.
    template <std::invocable<std::size_t, std::size_t, std::size_t, T> Work>
    void for_both_laps(const ShiftedLevels& shifted, Work work) const {
        work(0, shifted.before_lap, shifted.first + 1, static_cast<T>(-shifted.lap));
        work(shifted.before_lap, m_, 1, static_cast<T>(-shifted.lap - 1.0));
    }

    // Requires ranks.
    double slope_of_all(const ShiftedLevels& shifted) const {
        const Power power = jump_cost_.power;
        double slope = 0.0;
        for_both_laps(shifted, [&](std::size_t begin, std::size_t end, std::size_t first, T lift) {
            const T *a = jump_cost_.a, *b = jump_cost_.b + first;
            const std::uint32_t* ranks = memory_.ranks.data() + begin;
            const auto count = static_cast<std::ptrdiff_t>(end - begin);
            double total = 0.0;
#pragma omp simd reduction(+ : total)
            for (std::ptrdiff_t j = 0; j < count; ++j) {
                const T matched = a[ranks[j]];
                total += static_cast<double>(power.difference((matched - b[j]) + lift, (matched - b[j - 1]) + lift));
            }
            slope += total;
        });
        return slope;
    }

    // Requires ranks.
    Piece piece_of_all(double alpha, double low, double high, double slope) const {
        const double* levels = memory_.levels.data();
        const std::uint32_t* ranks = memory_.ranks.data();
        double to_left = alpha - low, to_right = high - alpha;
        for (std::size_t r = 0; r < m_; ++r) {
            to_left = std::min(to_left, A_[ranks[r] + 1] - levels[r]);
            to_right = std::min(to_right, levels[r] - A_[ranks[r]]);
        }
        return {(alpha - to_left) * mass_units, (alpha + to_right) * mass_units, slope};
    }

    // How far from a cut to look at breakpoints; 0 where the minimum is too far for that.
    double window_for(double alpha, double slope) {
        constexpr double widening = 1.3, least = 0.05;
        const double mean_mass = 1.0 / static_cast<double>(n_);
        const double window = widening * distance_(alpha, slope) + least * mean_mass;
        return window <= most_window_ * mean_mass ? window : 0.0;
    }

    // Writes the first crossings of levels in a window, and returns their number. Requires ranks.
    std::size_t collect_crossings(const ShiftedLevels& shifted, double slope, double window) {
        auto& crossings = memory_.crossings;
        if (crossings.size() < m_ + 1) crossings.resize(m_ + 1);
        const double *levels = memory_.levels.data(), *edges = slope < 0.0 ? A_ : A_ + 1;
        const std::uint32_t* ranks = memory_.ranks.data();
        const double sign = slope < 0.0 ? 1.0 : -1.0;
        std::size_t count = 0;
        for_both_laps(shifted, [&](std::size_t begin, std::size_t end, std::size_t first, T lift) {
            const auto lap = static_cast<std::int64_t>(lift) * static_cast<std::int64_t>(n_);
            for (std::size_t r = begin; r < end; ++r) {  // without a branch: what is not kept is overwritten
                const double distance = sign * (levels[r] - edges[ranks[r]]);
                crossings[count] = {distance, lap + ranks[r], static_cast<std::uint32_t>(first + (r - begin))};
                count += distance < window;
            }
        });
        return count;
    }

    const Atoms<T>& y_;
    CutMemory& memory_;
    JumpCost<T, Power> jump_cost_;
    const double* A_;
    std::size_t n_, m_;
    CutDistance distance_;
    double most_window_ = 1.5;  // in mean masses of x
};

// The optimal cut. Requires masses.
template <Real T, CostPower Power>
double general_cut(const Atoms<T>& x, const Atoms<T>& y, const InitialCut& start, Power power, CutMemory& memory) {
    // Masses are multiples of the unit, and so is every breakpoint.
    GeneralSlope<T, Power> slope(x, y, known_curvature(start, power), power, memory);
    const auto piece_at = [&](double k, double lowest, double highest) { return slope(k, lowest, highest); };
    return least_point(-mass_units, mass_units, start.in_units(mass_units), piece_at) / mass_units;
}

}  // namespace sphereot
