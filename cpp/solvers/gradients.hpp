// Costs of all slices with gradients in points and weights: each slice is projected, sorted, cut and differentiated.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/turn_gradients.hpp"
#include "circle/uniform.hpp"
#include "circle/weight_gradients.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "solvers/costs.hpp"
#include "solvers/gradient_sums.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

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
          matching_(matching_of(x, y)),
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
            return pairing.cost(cut, power_);
        }
        if (matching_ == Matching::unequal) return unequal_turn_gradient(a_, b_, cut, power_, dx_.data(), dy_.data());
        return general_turn_gradient(a_, b_, cut, power_, memory_, dx_.data(), dy_.data());
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
void differentiate_slices(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, double p, std::size_t groups,
                          const Execution& execution, double* costs, GradientOutput<T> out_x, GradientOutput<T> out_y) {
    const std::size_t tile_length = slices_per_tile<T>(x.atoms + y.atoms + 2 * x.dim);
    GradientSums<T> sums_x(x, out_x, groups), sums_y(y, out_y, groups);
    with_power(p, [&](auto power) {
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
        return uniform_cost(a_, cut, power_);
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
void differentiate_slices_uniform(const SlicedMeasure<T>& x, double p, std::size_t groups, const Execution& execution,
                                  double* costs, GradientOutput<T> out) {
    const std::size_t tile_length = slices_per_tile<T>(x.atoms + x.dim);
    const bool closed_form = p == 2.0 && !x.weights && !out.weights;
    GradientSums<T> sums(x, out, groups);
    with_power(p, [&](auto power) {
        parallel_for_groups(x.slices, groups, tile_length, execution, [&](Watch& watch) {
            return UniformGradientWorker<T, decltype(power)>(x, tile_length, power, costs, sums, closed_form, watch);
        });
    });
    sums.finish();
}

}  // namespace sphereot
