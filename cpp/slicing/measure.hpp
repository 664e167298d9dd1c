// The slices of a measure: where the turns of its points on each great circle come from.
#pragma once

#include <algorithm>
#include <cstddef>

#include "circle/atoms.hpp"
#include "circle/grid.hpp"
#include "slicing/frames.hpp"

namespace sphereot {

// Atoms that are projected together: their arrays fit in the L1 cache.
inline constexpr std::size_t block_size = 512;

// Points, given in one of four ways, seen on `slices` circles. Plain pointers: the owner of the memory is elsewhere.
//
// `points` are coordinate after coordinate, and are projected slice by slice; `rows` are point after point, as users
// have them, and are projected for several slices at a time (slicing/slice_run.hpp), which pays in many dimensions.
template <class T>
struct SlicedMeasure {
    enum class Form { points, rows, planar, turns };

    Form form;
    std::size_t slices, atoms, dim;
    const T* data;    // points: (dim, atoms); rows: (atoms, dim); planar: (slices, 2, atoms); turns: (slices, atoms)
    const T* frames;  // points, rows: (slices, dim, 2); for rows null where they are drawn
    const double* weights;  // (atoms) or (slices, atoms), or null for equal weights
    bool weights_per_slice;
    RandomPlanes drawn{};

    const double* slice_weights(std::size_t slice) const {
        return weights && weights_per_slice ? weights + slice * atoms : weights;
    }

    // Hands the turns of a slice over in blocks that stay in the nearest cache: sink(first, count, turns). Not for
    // rows.
    template <class Sink>
    void for_each_block(std::size_t slice, Sink sink) const {
        T first[block_size], second[block_size], turns[block_size];
        for (std::size_t begin = 0; begin < atoms; begin += block_size) {
            const std::size_t count = std::min(block_size, atoms - begin);
            if (form == Form::turns) {
                const T* given = data + slice * atoms + begin;
                for (std::size_t i = 0; i < count; ++i) turns[i] = wrapped_turn(given[i]);
            } else if (form == Form::planar) {
                const T* given = data + slice * 2 * atoms + begin;
                for (std::size_t i = 0; i < count; ++i) turns[i] = planar_turn(given[i], given[atoms + i]);
            } else {
                project(slice, begin, count, first, second);
                for (std::size_t i = 0; i < count; ++i) turns[i] = planar_turn(first[i], second[i]);
            }
            sink(begin, count, static_cast<const T*>(turns));
        }
    }

    void sort_slice(std::size_t slice, Atoms<T>& sorted, bool with_indices = false) const {
        auto* keys = sorted.begin_keys();
        for_each_block(slice, [&](std::size_t begin, std::size_t count, const T* turns) {
            for (std::size_t i = 0; i < count; ++i) keys[begin + i] = Grid<T>::key(turns[i]);
            sorted.count(keys + begin, count);
        });
        const double* weight = slice_weights(slice);
        if (weight || with_indices) sorted.sort_with_indices();
        else sorted.sort();
        if (weight) sorted.set_masses(weight);
    }

    // U^T x, coordinate after coordinate, so that each loop runs along the points.
    void project(std::size_t slice, std::size_t begin, std::size_t count, T* first, T* second) const {
        const T* frame = frames + slice * dim * 2;
        std::fill_n(first, count, T(0));
        std::fill_n(second, count, T(0));
        for (std::size_t k = 0; k < dim; ++k) {
            const T* coordinate = data + k * atoms + begin;
            const T u = frame[2 * k], v = frame[2 * k + 1];
            for (std::size_t i = 0; i < count; ++i) first[i] += u * coordinate[i];
            for (std::size_t i = 0; i < count; ++i) second[i] += v * coordinate[i];
        }
    }
};

}  // namespace sphereot
