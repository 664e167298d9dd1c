// Several slices at a time: points of many coordinates are projected by one product for all of them, and gradients go
// back by another. A coordinate that was loaded then serves each slice of the tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "products.hpp"
#include "slices.hpp"

namespace sphereot {

// As many slices as stay in the cache of a core, where each takes this many vectors of two numbers (its points, and its
// frame); whole blocks of rows for the products.
template <class T>
std::size_t slices_a_tile(std::size_t vectors) {
    constexpr std::size_t bytes = 1 << 18, least = product_rows;
    return std::max(least, bytes / (2 * vectors * sizeof(T)) / least * least);
}

// The slices of a measure that a thread has in hand. Gradients take the place of the planar points.
template <class T>
class Tile {
  public:
    Tile(const SlicedMeasure<T>& points, std::size_t slices)
        : points_(points), rows_(std::make_unique_for_overwrite<T[]>(slices * 2 * points.dim)),
          planar_(std::make_unique_for_overwrite<T[]>(slices * 2 * points.atoms)) {}

    // The planar points U^T x of `count` slices.
    SlicedMeasure<T> project(std::size_t first, std::size_t count) {
        const std::size_t dim = points_.dim, n = points_.atoms;
        const T* frame = points_.frames + first * dim * 2;
        T* rows = rows_.get();
        for (std::size_t l = 0; l < count; ++l, frame += 2 * dim)
            for (std::size_t k = 0; k < dim; ++k) {
                rows[2 * l * dim + k] = frame[2 * k];
                rows[(2 * l + 1) * dim + k] = frame[2 * k + 1];
            }
        const auto left = [=](std::size_t k, std::size_t r) { return rows[r * dim + k]; };
        multiply<T>(2 * count, n, dim, left, {points_.data, n}, {planar_.get(), n});
        return {SlicedMeasure<T>::Form::planar, count, n, 2, planar_.get(), nullptr, points_.slice_weights(first),
                points_.weights_per_slice};
    }

    T* gradient() { return planar_.get(); }

    // U times the gradient, summed over the slices projected last, to the gradient of the points (atoms, dim).
    void give_back(std::size_t count, T* out, Into into) const {
        const std::size_t dim = points_.dim, n = points_.atoms;
        const T* planar = planar_.get();
        const auto left = [=](std::size_t r, std::size_t i) { return planar[r * n + i]; };
        multiply<T>(n, dim, 2 * count, left, {rows_.get(), dim}, {out, dim}, into);
    }

  private:
    SlicedMeasure<T> points_;
    std::unique_ptr<T[]> rows_;    // (2 slices, dim): the vectors of the frames, one after the other
    std::unique_ptr<T[]> planar_;  // (slices, 2, atoms)
};

}  // namespace sphereot
