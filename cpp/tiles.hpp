// Several slices at a time: points of many coordinates are projected by one product for all of them, and gradients go
// back by another. A coordinate that was loaded then serves each slice of the tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "products.hpp"
#include "slices.hpp"

namespace sphereot {

template <class T>
class Tile {
  public:
    static constexpr std::size_t slices = 8;

    explicit Tile(const SlicedMeasure<T>& points)
        : points_(points), rows_(slices * 2 * points.dim), planar_(slices * 2 * points.atoms) {}

    // The planar points U^T x of `count` slices.
    SlicedMeasure<T> project(std::size_t first, std::size_t count) {
        const std::size_t dim = points_.dim, n = points_.atoms;
        const T* frame = points_.frames + first * dim * 2;
        for (std::size_t l = 0; l < count; ++l, frame += 2 * dim)
            for (std::size_t k = 0; k < dim; ++k) {
                rows_[2 * l * dim + k] = frame[2 * k];
                rows_[(2 * l + 1) * dim + k] = frame[2 * k + 1];
            }
        std::fill_n(planar_.data(), count * 2 * n, T(0));
        const T* rows = rows_.data();
        const auto left = [=](std::size_t k, std::size_t r) { return rows[r * dim + k]; };
        add_product<T>(2 * count, n, dim, left, {points_.data, n}, {planar_.data(), n});
        const double* weights = points_.slice_weights(first);
        return {SlicedMeasure<T>::Form::planar, count, n, 2, planar_.data(), nullptr, weights, points_.weights_per_slice};
    }

    // Where gradients in planar points go: in the place of these.
    T* gradient() { return planar_.data(); }

    // Adds U times the gradient of each of the slices projected last to that of the points (atoms, dim).
    void add_back(std::size_t count, T* out) const {
        const std::size_t dim = points_.dim, n = points_.atoms;
        const T* planar = planar_.data();
        const auto left = [=](std::size_t r, std::size_t i) { return planar[r * n + i]; };
        add_product<T>(n, dim, 2 * count, left, {rows_.data(), dim}, {out, dim});
    }

  private:
    SlicedMeasure<T> points_;
    std::vector<T> rows_;    // (2 slices, dim): the vectors of the frames, one after the other
    std::vector<T> planar_;  // (slices, 2, atoms)
};

}  // namespace sphereot
