// Gradients of slice costs, by the envelope theorem: the matched pairs are differentiated at a fixed cut.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "solvers/costs.hpp"
#include "solvers/gradient_sums.hpp"
#include "support/compiler.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

// ---- in turns, on one circle; outputs are in input order and require sort_with_indices ----

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
Total<Power> general_turn_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, CutMemory& memory,
                                   T* dx, T* dy) {
    struct Sum {
        Power power;
        double *by_x, *by_y;
        Total<Power> cost;
        void operator()(std::size_t i, std::size_t j, double mass, T displacement) {
            if (is_large<Power> && mass <= mass_trace) return;
            const double slope = mass * static_cast<double>(power.derivative(displacement));
            by_x[i] += slope;
            by_y[j] -= slope;
            cost.add(mass, displacement);
        }
    };
    std::vector<double> by_x(x.size()), by_y(y.size());
    const Sum zero{power, by_x.data(), by_y.data(), Total<Power>{power}};
    std::array<Sum, merge_walks> sums{zero, zero, zero, zero};
    walk_levels(x, y, cut, memory, sums);
    for (std::size_t i = 0; i < x.size(); ++i) dx[x.source_index(i)] = static_cast<T>(by_x[i]);
    for (std::size_t j = 0; j < y.size(); ++j) dy[y.source_index(j)] = static_cast<T>(by_y[j]);
    for (std::size_t w = 1; w < merge_walks; ++w) sums[0].cost.add(sums[w].cost);
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
        constexpr std::int32_t block = block_size;
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
    T slopes[block_size];
    for (std::size_t begin = 0; begin < x.size(); begin += block_size) {
        const std::size_t count = std::min(block_size, x.size() - begin);
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

// ---- in weights: the dual potential phi of the first measure ----

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
    // The accuracy of sums of weights, and of the cut of large orders.
    constexpr double rounding_of_masses = 1e-13;
    constexpr double same_level = is_large<Power> ? mass_trace : rounding_of_masses;
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

// ---- all slices ----

// How many slices fit in the L2 cache of a core, where each takes `vectors` pairs of numbers (its points and its
// frame); but at least as many as make a matrix product efficient.
template <Real T>
std::size_t slices_per_tile(std::size_t vectors) {
    constexpr std::size_t cache_bytes = 1 << 18, least = 32;
    return std::max(least, cache_bytes / (2 * vectors * sizeof(T)));
}

// Calls worker(first, count, group, accumulate) for runs of at most `tile_length` slices, with a worker for each thread
// from make_worker(watch). The runs of a group are done in order by one thread; all but its first accumulate.
template <std::invocable<Watch&> MakeWorker>
void parallel_for_groups(std::size_t slices, std::size_t groups, std::size_t tile_length, const Execution& execution,
                         MakeWorker make_worker) {
    parallel_for(groups, execution, [&](Watch& watch) {
        return [=, worker = make_worker(watch)](std::size_t group) mutable {
            const std::size_t begin = group * slices / groups, count = (group + 1) * slices / groups - begin;
            const std::size_t runs = (count + tile_length - 1) / tile_length;
            for (std::size_t run = 0; run < runs; ++run) {
                const std::size_t first = run * count / runs, last = (run + 1) * count / runs;
                worker(begin + first, last - first, group, run == 0 ? Accumulate::no : Accumulate::yes);
            }
        };
    });
}

// The order of the costs, and the unit of length in which they and their gradients are wanted: beyond
// `largest_plain_order` they are those of (W_p / unit)^p.
struct Order {
    double p, unit;
};

// Costs and gradients of slices of two measures.
template <Real T, CostPower Power>
class PairGradientWorker {
public:
    PairGradientWorker(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, std::size_t tile_length, Power power,
                       double* costs, GradientSums<T>& sums_x, GradientSums<T>& sums_y, Watch& watch)
        : power_(power),
          costs_(costs),
          sums_x_(sums_x),
          sums_y_(sums_y),
          watch_(watch),
          matching_(matching_of<Power>(x, y)),
          a_(x.atoms),
          b_(y.atoms),
          dx_(x.atoms),
          dy_(y.atoms),
          run_x_(x, tile_length),
          run_y_(y, tile_length) {}

    void operator()(std::size_t first, std::size_t count, std::size_t group, Accumulate accumulate) {
        run_x_.load(first, count);
        run_y_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            run_x_.sort_slice(l, a_, true);
            run_y_.sort_slice(l, b_, true);
            costs_[first + l] = differentiate(group);
            sums_x_.pull_back(run_x_, l, group, dx_.data());
            sums_y_.pull_back(run_y_, l, group, dy_.data());
            watch_.pass(a_.size() + b_.size());
        }
        sums_x_.end_run(run_x_, count, group, accumulate);
        sums_y_.end_run(run_y_, count, group, accumulate);
    }

private:
    // Returns the cost of the sorted slice, sets the gradients in turns and adds those in weights.
    double differentiate(std::size_t group) {
        const Pairing<T> pairing = paired(a_, b_, matching_, memory_);
        const double cut = pairing.cut(power_);
        if (double* out = sums_x_.weights(group))
            general_weight_gradient(a_, b_, cut, power_, memory_, sums_x_.share(), out);
        if (double* out = sums_y_.weights(group))
            general_weight_gradient(b_, a_, -cut, power_, memory_, sums_y_.share(), out);
        if (matching_ == Matching::equal) {
            equal_turn_gradient(a_, b_, cut, power_, dx_.data(), dy_.data());
            return pairing.cost(cut, power_).cost();
        }
        if constexpr (!is_large<Power>)
            if (matching_ == Matching::unequal)
                return unequal_turn_gradient(a_, b_, cut, power_, dx_.data(), dy_.data());
        return general_turn_gradient(a_, b_, cut, power_, memory_, dx_.data(), dy_.data()).cost();
    }

    Power power_;
    double* costs_;
    GradientSums<T>&sums_x_, &sums_y_;
    Watch& watch_;
    Matching matching_;
    CutMemory memory_;
    Atoms<T> a_, b_;
    std::vector<T> dx_, dy_;
    SliceRun<T> run_x_, run_y_;
};

// Costs of all slices, and the gradients of their sum times the shares of the outputs. Requires 1 <= groups <= slices,
// and groups = slices where the sources do not sum slices.
template <Real T>
void differentiate_slices(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, Order order, std::size_t groups,
                          const Execution& execution, double* costs, GradientOutput<T> out_x, GradientOutput<T> out_y) {
    const std::size_t tile_length = slices_per_tile<T>(x.atoms + y.atoms + 2 * x.dim);
    GradientSums<T> sums_x(x, out_x, groups), sums_y(y, out_y, groups);
    with_power(order.p, order.unit, [&](auto power) {
        parallel_for_groups(x.slices, groups, tile_length, execution, [&](Watch& watch) {
            return PairGradientWorker<T, decltype(power)>(x, y, tile_length, power, costs, sums_x, sums_y, watch);
        });
    });
    sums_x.finish();
    sums_y.finish();
}

// Costs and gradients of slices of one measure against the uniform one.
template <Real T, CostPower Power>
class UniformGradientWorker {
public:
    UniformGradientWorker(const SlicedMeasure<T>& x, std::size_t tile_length, Power power, double* costs,
                          GradientSums<T>& sums, bool closed_form, Watch& watch)
        : power_(power),
          costs_(costs),
          sums_(sums),
          closed_form_(closed_form),
          watch_(watch),
          a_(x.atoms),
          dx_(x.atoms),
          run_(x, tile_length) {}

    void operator()(std::size_t first, std::size_t count, std::size_t group, Accumulate accumulate) {
        run_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            run_.sort_slice(l, a_, true);
            costs_[first + l] = differentiate(group);
            sums_.pull_back(run_, l, group, dx_.data());
            watch_.pass(a_.size());
        }
        sums_.end_run(run_, count, group, accumulate);
    }

private:
    // As in `PairGradientWorker`.
    double differentiate(std::size_t group) {
        if (!closed_form_) a_.set_equal_masses();
        const double cut = uniform_cut(a_, power_, watch_);
        if (closed_form_) equal_uniform_turn_gradient(a_, cut, dx_.data());
        else uniform_turn_gradient(a_, cut, power_, dx_.data());
        if (double* out = sums_.weights(group)) uniform_weight_gradient(a_, cut, power_, sums_.share(), out);
        return uniform_cost(a_, cut, power_).cost();
    }

    Power power_;
    double* costs_;
    GradientSums<T>& sums_;
    bool closed_form_;  // p = 2 and equal weights
    Watch& watch_;
    Atoms<T> a_;
    std::vector<T> dx_;
    SliceRun<T> run_;
};

// The same against the uniform measure.
template <Real T>
void differentiate_slices_uniform(const SlicedMeasure<T>& x, Order order, std::size_t groups,
                                  const Execution& execution, double* costs, GradientOutput<T> out) {
    const std::size_t tile_length = slices_per_tile<T>(x.atoms + x.dim);
    const bool closed_form = order.p == 2.0 && !x.weights && !out.weights;
    GradientSums<T> sums(x, out, groups);
    with_power(order.p, order.unit, [&](auto power) {
        parallel_for_groups(x.slices, groups, tile_length, execution, [&](Watch& watch) {
            return UniformGradientWorker<T, decltype(power)>(x, tile_length, power, costs, sums, closed_form, watch);
        });
    });
    sums.finish();
}

}  // namespace sphereot
