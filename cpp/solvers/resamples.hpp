// Costs of resampled measures: each measure is projected and sorted once per slice, and each resample repeats its atoms
// in their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "circle/atoms.hpp"
#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "solvers/costs.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

// How often each resample of a measure has each of its points.
struct Resamples {
    std::size_t count, points, size;  // each resample has `size` points in total
    const std::uint32_t* repeats;     // (count, points)

    const std::uint32_t* of(std::size_t k) const { return repeats + k * points; }

    // Whether each resample has `size` points. It must, since they are written without bounds checks.
    bool have_valid_sizes() const {
        for (std::size_t k = 0; k < count; ++k)
            if (std::accumulate(of(k), of(k) + points, std::uint64_t{0}) != size) return false;
        return size > 0;
    }
};

// Writes every atom `repeats[input index]` times, in order. Requires sort_with_indices of `sorted`, and room for the
// sum of all repeats in `out`.
template <Real T>
void repeat_atoms(const Atoms<T>& sorted, const std::uint32_t* repeats, Atoms<T>& out) {
    constexpr std::uint32_t unconditional = 4;  // copies that are always written: more are rare, and a branch is slow
    static_assert(unconditional <= partition_slack);
    const T* turns = sorted.turns().data();
    T *const first = out.begin_sorted(), *next = first;
    std::size_t i = 0;
    for (int cell = 0; cell < Cells::count; ++cell) {
        for (const std::size_t end = sorted.passed(cell); i < end; ++i) {
            const std::uint32_t copies = repeats[sorted.source_index(i)];
            for (std::uint32_t c = 0; c < unconditional; ++c) next[c] = turns[i];
            if (copies > unconditional) std::fill(next + unconditional, next + copies, turns[i]);
            next += copies;
        }
        out.set_passed(cell, static_cast<std::size_t>(next - first));
    }
    out.end_sorted();
}

// A measure on the loaded slices, and one resample of it at a time.
template <Real T>
class ResampledRun {
public:
    ResampledRun(const SlicedMeasure<T>& measure, const Resamples& resamples, std::size_t run_length)
        : resamples_(resamples), sorted_(measure.atoms), resample_(resamples.size), run_(measure, run_length) {}

    void load(std::size_t first, std::size_t count) { run_.load(first, count); }
    void sort_slice(std::size_t l) { run_.sort_slice(l, sorted_, true); }

    // The k-th resample of the slice that was sorted last.
    Atoms<T>& resample(std::size_t k) {
        repeat_atoms(sorted_, resamples_.of(k), resample_);
        return resample_;
    }

private:
    Resamples resamples_;
    Atoms<T> sorted_, resample_;
    SliceRun<T> run_;
};

// Writes result[l, k] for slices l and resamples k of two measures.
template <Real T, CostPower Power>
class ResampleWorker {
public:
    ResampleWorker(ResampledRun<T> x, ResampledRun<T> y, Matching matching, std::size_t resamples, Power power,
                   double* result, Watch& watch)
        : x_(std::move(x)),
          y_(std::move(y)),
          matching_(matching),
          resamples_(resamples),
          power_(power),
          result_(result),
          watch_(watch) {}

    void operator()(std::size_t first, std::size_t count) {
        x_.load(first, count);
        y_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            x_.sort_slice(l);
            y_.sort_slice(l);
            for (std::size_t k = 0; k < resamples_; ++k) {
                Atoms<T>&a = x_.resample(k), &b = y_.resample(k);
                const auto pairing = paired(a, b, matching_, memory_);
                result_[(first + l) * resamples_ + k] = pairing.cost(pairing.cut(power_), power_);
                watch_.pass(a.size() + b.size());
            }
        }
    }

private:
    ResampledRun<T> x_, y_;
    Matching matching_;
    std::size_t resamples_;
    Power power_;
    double* result_;
    Watch& watch_;
    CutMemory memory_;
};

// result[l, k]: the cost on slice l between the k-th resamples of both measures, which have no weights.
template <Real T>
void solve_slices_resampled(const SlicedMeasure<T>& x, const Resamples& of_x, const SlicedMeasure<T>& y,
                            const Resamples& of_y, double p, const Execution& execution, double* result) {
    const std::size_t run_length = slices_per_run(x, execution);
    with_power(p, [&](auto power) {
        using Power = decltype(power);
        const Matching matching = matching_of(of_x.size, of_y.size, false);
        parallel_for_slices(x.slices, run_length, execution, [&](Watch& watch) {
            return ResampleWorker<T, Power>({x, of_x, run_length}, {y, of_y, run_length}, matching, of_x.count, power,
                                            result, watch);
        });
    });
}

// Writes result[l, k] for slices l and resamples k of one measure against the uniform one.
template <Real T, CostPower Power>
class UniformResampleWorker {
public:
    UniformResampleWorker(ResampledRun<T> x, std::size_t resamples, Power power, double p, double* result, Watch& watch)
        : x_(std::move(x)), resamples_(resamples), power_(power), p_(p), result_(result), watch_(watch) {}

    void operator()(std::size_t first, std::size_t count) {
        x_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            x_.sort_slice(l);
            for (std::size_t k = 0; k < resamples_; ++k) {
                Atoms<T>& a = x_.resample(k);
                if (p_ != 2.0) a.set_equal_masses();
                result_[(first + l) * resamples_ + k] = uniform_cost(a, uniform_cut(a, power_, watch_), power_);
                watch_.pass(a.size());
            }
        }
    }

private:
    ResampledRun<T> x_;
    std::size_t resamples_;
    Power power_;
    double p_;
    double* result_;
    Watch& watch_;
};

// result[l, k]: the cost on slice l of the k-th resample against the uniform measure.
template <Real T>
void solve_slices_uniform_resampled(const SlicedMeasure<T>& x, const Resamples& of_x, double p,
                                    const Execution& execution, double* result) {
    const std::size_t run_length = slices_per_run(x, execution);
    with_power(p, [&](auto power) {
        parallel_for_slices(x.slices, run_length, execution, [&](Watch& watch) {
            return UniformResampleWorker<T, decltype(power)>({x, of_x, run_length}, of_x.count, power, p, result,
                                                             watch);
        });
    });
}

}  // namespace sphereot
