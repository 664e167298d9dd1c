// Several slices at a time: points of many coordinates are projected by one product for all of them, and gradients go
// back by another. A coordinate that was loaded then serves each slice of the tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "slicing/frames.hpp"
#include "slicing/gemm.hpp"
#include "slicing/measure.hpp"
#include "support/parallel.hpp"

namespace sphereot {

// The slices of a measure, given by rows, that a thread has in hand. It copies the points for itself, coordinate after
// coordinate. Gradients take the place of the planar points.
template <class T>
class Tile {
public:
    Tile(const SlicedMeasure<T>& rows, std::size_t slices)
        : given_(rows),
          coordinates_(rows.dim, rows.atoms),
          vectors_(2 * slices, rows.dim),
          frames_(std::make_unique_for_overwrite<T[]>(slices * 2 * rows.dim)),
          planar_(std::make_unique_for_overwrite<T[]>(slices * 2 * rows.atoms)) {
        coordinates_.fill_transposed(rows.data);
    }

    // The planar points U^T x of `count` slices.
    SlicedMeasure<T> project(std::size_t first, std::size_t count) {
        const std::size_t dim = given_.dim, n = given_.atoms;
        for (std::size_t l = 0; l < count; ++l) set_frame(first + l, frames_.get() + l * 2 * dim);
        const auto left = [dim, rows = frames_.get()](std::size_t k, std::size_t r) { return rows[r * dim + k]; };
        gemm<T>(2 * count, dim, left, coordinates_, {planar_.get(), n}, Accumulate::no, left_factor_);
        return {SlicedMeasure<T>::Form::planar, count, n, 2, planar_.get(), nullptr, given_.slice_weights(first),
                given_.weights_per_slice};
    }

    T* gradient() { return planar_.get(); }

    // U times the gradient, summed over the slices projected last, to the gradient of the points (atoms, dim).
    void accumulate_gradient(std::size_t count, T* out, Accumulate accumulate) {
        const std::size_t dim = given_.dim, n = given_.atoms;
        vectors_.fill(frames_.get(), 2 * count);
        const auto left = [n, planar = planar_.get()](std::size_t r, std::size_t i) { return planar[r * n + i]; };
        gemm<T>(n, 2 * count, left, vectors_, {out, dim}, accumulate, left_factor_);
    }

private:
    void set_frame(std::size_t slice, T* rows) const {
        if constexpr (std::is_same_v<T, float>)  // planes are drawn in single precision only
            if (!given_.frames) return given_.drawn.draw(slice, given_.dim, rows);
        frame_to_rows(given_.frames + slice * given_.dim * 2, given_.dim, rows);
    }

    SlicedMeasure<T> given_;
    Panels<T> coordinates_;        // (dim, atoms)
    Panels<T> vectors_;            // (2 slices, dim): the vectors of the frames, one after the other
    std::unique_ptr<T[]> frames_;  // the same
    std::unique_ptr<T[]> planar_;  // (slices, 2, atoms)
    std::vector<T> left_factor_;   // of a product
};

// The measure on a run of slices that a task has in hand: as it was given, or projected to a tile.
template <class T>
class SliceRun {
public:
    SliceRun(const SlicedMeasure<T>& x, std::size_t most) : x_(x) {
        if (x.form == SlicedMeasure<T>::Form::rows) tile_.emplace(x, most);
    }

    void load(std::size_t first, std::size_t count) {
        first_ = first;
        if (tile_) projected_ = tile_->project(first, count);
    }

    // The measure, and the number in it of the l-th slice in hand.
    const SlicedMeasure<T>& measure() const { return tile_ ? *projected_ : x_; }
    std::size_t slice(std::size_t l) const { return tile_ ? l : first_ + l; }

    void sort_slice(std::size_t l, Atoms<T>& sorted, bool with_indices = false) const {
        measure().sort_slice(slice(l), sorted, with_indices);
    }

    std::optional<Tile<T>>& tile() { return tile_; }

private:
    SlicedMeasure<T> x_;
    std::optional<Tile<T>> tile_;
    std::optional<SlicedMeasure<T>> projected_;
    std::size_t first_ = 0;
};

// How many slices to take in hand for their costs alone: two blocks of rows for the product, if that leaves some for
// each thread; else one. A projection is the same to the last bit in whatever company.
template <class T>
std::size_t slices_per_run(const SlicedMeasure<T>& x, const Execution& execution) {
    if (x.form != SlicedMeasure<T>::Form::rows) return 1;
    const std::size_t each = x.slices / std::max<std::size_t>(execution.threads, 1);
    return std::clamp<std::size_t>(each, 1, gemm_rows);
}

// worker(first, count) for runs of slices.
template <class MakeWorker>
void parallel_for_slices(std::size_t slices, std::size_t run_length, const Execution& execution,
                         MakeWorker make_worker) {
    parallel_for((slices + run_length - 1) / run_length, execution, [&](Watch& watch) {
        return [slices, run_length, worker = make_worker(watch)](std::size_t run) mutable {
            worker(run * run_length, std::min(run_length, slices - run * run_length));
        };
    });
}

}  // namespace sphereot
