// Runs of consecutive slices: what a thread projects at a time.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>
#include <variant>

#include "circle/atoms.hpp"
#include "slicing/measure.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

// The measure on the run of slices that a thread has loaded.
template <Real T>
class SliceRun {
public:
    SliceRun(const SlicedMeasure<T>& measure, std::size_t max_slices)
        : measure_(measure),
          reader_(std::visit([=](const auto& source) { return AnyReader<T>(source.reader(max_slices)); },
                             measure.source)) {}

    void load(std::size_t first, std::size_t count) {
        first_ = first;
        std::visit([=](auto& reader) { reader.load(first, count); }, reader_);
    }

    // Calls sink(begin, count, turns) for consecutive blocks of at most `block_size` atoms of the l-th loaded slice.
    template <std::invocable<std::size_t, std::size_t, const T*> Sink>
    void for_each_block(std::size_t l, Sink sink) const {
        std::visit(
            [&](const auto& reader) {
                T turns[block_size];
                for (std::size_t begin = 0; begin < measure_.atoms; begin += block_size) {
                    const std::size_t count = std::min(block_size, measure_.atoms - begin);
                    reader.write_turns(l, begin, count, turns);
                    sink(begin, count, static_cast<const T*>(turns));
                }
            },
            reader_);
    }

    // Sorts the atoms of the l-th loaded slice, and sets their masses if the measure has weights. Input indices are
    // available after the sort if the measure has weights, or `with_indices`.
    void sort_slice(std::size_t l, Atoms<T>& sorted, bool with_indices = false) const {
        auto* keys = sorted.begin_keys();
        for_each_block(l, [&](std::size_t begin, std::size_t count, const T* turns) {
            for (std::size_t i = 0; i < count; ++i) keys[begin + i] = Grid<T>::key(turns[i]);
            sorted.count(keys + begin, count);
        });
        const double* weights = measure_.slice_weights(first_ + l);
        if (weights || with_indices) sorted.sort_with_indices();
        else sorted.sort();
        if (weights) sorted.set_masses(weights);
    }

    // As in `SliceReader`.
    void pull_back(std::size_t l, const T* dturn, double share, T* out) {
        std::visit([=](auto& reader) { reader.pull_back(l, dturn, share, out); }, reader_);
    }
    void end_gradient(std::size_t count, T* out, Accumulate accumulate) {
        std::visit([=](auto& reader) { reader.end_gradient(count, out, accumulate); }, reader_);
    }

private:
    SlicedMeasure<T> measure_;
    AnyReader<T> reader_;
    std::size_t first_ = 0;
};

// How many slices to load at a time for costs without gradients: one block of rows of the product for sources that
// project runs, if each thread gets as many; else one. The projections do not depend on it.
template <Real T>
std::size_t slices_per_run(const SlicedMeasure<T>& x, const Execution& execution) {
    if (!x.projects_runs()) return 1;
    const std::size_t per_thread = x.slices / std::max<std::size_t>(execution.threads, 1);
    return std::clamp<std::size_t>(per_thread, 1, gemm_rows);
}

// Calls worker(first, count) for runs of slices, with a worker for each thread from make_worker(watch).
template <std::invocable<Watch&> MakeWorker>
void parallel_for_slices(std::size_t slices, std::size_t run_length, const Execution& execution,
                         MakeWorker make_worker) {
    parallel_for((slices + run_length - 1) / run_length, execution, [&](Watch& watch) {
        return [slices, run_length, worker = make_worker(watch)](std::size_t run) mutable {
            worker(run * run_length, std::min(run_length, slices - run * run_length));
        };
    });
}

// Writes the turns (slices, atoms) of a measure.
template <Real T>
class TurnWorker {
public:
    TurnWorker(const SlicedMeasure<T>& measure, std::size_t run_length, T* turns, Watch& watch)
        : atoms_(measure.atoms), turns_(turns), watch_(watch), run_(measure, run_length) {}

    void operator()(std::size_t first, std::size_t count) {
        run_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            T* row = turns_ + (first + l) * atoms_;
            run_.for_each_block(l, [&](std::size_t begin, std::size_t size, const T* block) {
                for (std::size_t i = 0; i < size; ++i) row[begin + i] = Grid<T>::turn(Grid<T>::key(block[i]));
            });
            watch_.pass(atoms_);
        }
    }

private:
    std::size_t atoms_;
    T* turns_;
    Watch& watch_;
    SliceRun<T> run_;
};

// Writes the turns (slices, atoms) of a measure, as the kernel rounds them to its grid.
template <Real T>
void write_turns(const SlicedMeasure<T>& measure, const Execution& execution, T* turns) {
    const std::size_t run_length = slices_per_run(measure, execution);
    parallel_for_slices(measure.slices, run_length, execution,
                        [&](Watch& watch) { return TurnWorker<T>(measure, run_length, turns, watch); });
}

}  // namespace sphereot
