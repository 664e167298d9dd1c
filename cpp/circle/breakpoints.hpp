// The last part of a search for the optimal cut: the breakpoints of C between a cut and the minimum, in order.
//
// A level of y is matched with an atom of x. As the cut moves, the level leaves the atom for the neighboring atom. There
// C has a breakpoint, and its slope changes by the difference of the two costs of the jump of G^-1. Near the minimum
// few levels leave their atoms, so their breakpoints cost less than further slopes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "circle/cut_search.hpp"
#include "circle/powers.hpp"
#include "support/real.hpp"

namespace sphereot {

// At `distance` from the cut, level `level` of y leaves an atom of x. Atoms are numbered through all laps: number
// i + lap n is atom i, lifted by `lap`.
struct Crossing {
    double distance;
    std::int64_t atom;
    std::uint32_t level;
};

// Memory for the search of one pair of measures; one object per thread.
struct CutMemory {
    std::vector<Crossing> crossings;
    std::vector<std::pair<double, double>> changes;  // distances of crossings, and changes of the slope there
    std::vector<double> levels;                      // of y as x sees them, and a sentinel
    std::vector<std::uint32_t> ranks;                // of these levels among those of x
};

// Cost of the jump of G^-1 from y_{j-1} to y_j at a level of y matched with atom i of x, where y is `lift` laps lower.
template <Real T, CostPower Power>
struct JumpCost {
    const T *a, *b;  // turns of x and y
    Power power;

    double operator()(std::size_t i, std::size_t j, T lift) const {
        return static_cast<double>(power.difference((a[i] - b[j]) + lift, (a[i] - b[j - 1]) + lift));
    }
};

// How far to look for breakpoints: estimates the distance to the minimum by the slopes of the last two cuts.
class CutDistance {
public:
    // `curvature`: the growth of the slope, or 0 if it is not known.
    explicit CutDistance(double curvature) : curvature_(curvature) {}

    // The estimate from a cut and the slope there; infinite if there is none.
    double operator()(double cut, double slope) {
        if (has_last_ && (slope - last_slope_) * (cut - last_cut_) > 0.0)
            curvature_ = (slope - last_slope_) / (cut - last_cut_);
        has_last_ = true;
        last_cut_ = cut;
        last_slope_ = slope;
        return curvature_ > 0.0 ? std::fabs(slope) / curvature_ : INFINITY;
    }

private:
    double curvature_, last_cut_ = 0.0, last_slope_ = 0.0;
    bool has_last_ = false;
};

// The curvature of `CutDistance`. That of an initial cut is for p = 2.
template <CostPower Power>
double known_curvature(const InitialCut& start, Power) {
    return std::is_same_v<Power, HalfPower<4>> ? start.curvature : 0.0;
}

// What lies in a window next to a cut: the minimum, a part of the slope only, or more breakpoints than were looked at.
struct WindowResult {
    enum class Kind { minimum, slope, unknown } kind;
    double value;  // the signed distance to the minimum, or the slope at the far end of the window
};

// The distance at which a slope passes 0, from the distances of breakpoints and the changes of the slope there.
// Requires that the sum of all changes takes the slope to 0 or beyond. The breakpoints are reordered.
inline double passing_distance(double slope, std::pair<double, double>* begin, std::pair<double, double>* end) {
    constexpr std::ptrdiff_t few = 24;
    const double sign = slope < 0.0 ? -1.0 : 1.0;
    // Many breakpoints may have the same distance, so that ranges of distance are halved, not numbers of breakpoints.
    while (end - begin > few) {
        double low = begin->first, high = begin->first;
        for (const auto* at = begin; at < end; ++at) {
            low = std::min(low, at->first);
            high = std::max(high, at->first);
        }
        if (low == high) return low;
        const double middle = low + 0.5 * (high - low);
        auto* const upper = std::partition(begin, end, [=](const auto& at) { return at.first <= middle; });
        if (upper == end) break;  // neighbors in double precision
        double reached = slope;
        for (const auto* at = begin; at < upper; ++at) reached += at->second;
        if (sign * reached <= 0.0) {
            end = upper;
        } else {
            begin = upper;
            slope = reached;
        }
    }
    std::sort(begin, end);
    double distance = 0.0;
    for (const auto* at = begin; at < end && sign * slope > 0.0; ++at) {
        distance = at->first;
        slope += at->second;
    }
    return distance;
}

// Moves from a cut with the given slope towards the minimum, over the breakpoints nearer than `window`. `crossings`
// begins with `count` elements, the first crossing of each level that has one there, to the right if slope < 0, else to
// the left. Lengths are those of `width(i)`, the mass of atom i of the n atoms of x.
template <Real T, CostPower Power, std::invocable<std::size_t> Width>
WindowResult pass_breakpoints(const JumpCost<T, Power>& jump_cost, std::size_t n, CutMemory& memory, std::size_t count,
                              double slope, double window, Width width) {
    constexpr std::size_t most_bins = 256, crossings_per_bin = 8, most_per_level = 4;
    if (count == 0) return {WindowResult::Kind::slope, slope};
    const std::size_t most = most_per_level * count;
    if (memory.crossings.size() < most + 1) memory.crossings.resize(most + 1);
    if (memory.changes.size() < most + 1) memory.changes.resize(most + 1);
    Crossing* crossings = memory.crossings.data();
    auto* changes = memory.changes.data();
    // Sums of changes by distance say in which bin the slope passes 0.
    const std::size_t bins = std::min(most_bins, count / crossings_per_bin + 1);
    std::array<double, most_bins> sums;
    std::fill_n(sums.begin(), bins, 0.0);
    const double bins_per_length = static_cast<double>(bins) / window;
    const auto bin_of = [=](double distance) {
        return std::min(static_cast<std::uint32_t>(distance * bins_per_length), static_cast<std::uint32_t>(bins - 1));
    };
    const auto atoms = static_cast<std::int64_t>(n), step = std::int64_t{slope < 0.0 ? -1 : 1};
    for (std::size_t c = 0; c < count; ++c) {
        const Crossing crossing = crossings[c];
        // The index of an atom, and the cost of the jump for it.
        const auto cost_at = [&](std::int64_t number) {
            T lift = T(0);
            for (; number < 0; number += atoms) lift -= T(1);
            for (; number >= atoms; number -= atoms) lift += T(1);
            const auto i = static_cast<std::size_t>(number);
            return std::pair(i, jump_cost(i, crossing.level, lift));
        };
        const auto [entered, cost] = cost_at(crossing.atom + step);
        const double change = cost - cost_at(crossing.atom).second;
        changes[c] = {crossing.distance, change};
        sums[bin_of(crossing.distance)] += change;
        // Without a branch: a crossing beyond the window is overwritten by the next.
        const double next = crossing.distance + width(entered);
        crossings[count] = {next, crossing.atom + step, crossing.level};
        count += next < window;
        if (count > most) return {WindowResult::Kind::unknown, slope};
    }
    const double sign = slope < 0.0 ? -1.0 : 1.0;
    double reached = slope;
    std::size_t bin = 0;
    while (bin < bins && sign * (reached + sums[bin]) > 0.0) reached += sums[bin++];
    if (bin == bins) return {WindowResult::Kind::slope, reached};
    std::size_t in_bin = 0;
    for (std::size_t c = 0; c < count; ++c) {
        const auto at = changes[c];
        changes[in_bin] = at;
        in_bin += bin_of(at.first) == bin;
    }
    return {WindowResult::Kind::minimum, -sign * passing_distance(reached, changes, changes + in_bin)};
}

}  // namespace sphereot
