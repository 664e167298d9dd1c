// Orthonormal frames of planes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "slicing/normal.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Gram and Schmidt's method for two vectors, in their place.
template <class T>
void orthonormalize(T* first, T* second, std::size_t dim) {
    const auto dot = [dim](const T* a, const T* b) { return sum<T>(dim, [=](std::size_t k) { return a[k] * b[k]; }); };
    double before, left;
    do {
        const double square = dot(first, first), along = dot(first, second) / square;
        before = dot(second, second);
        left = std::max(before - along * along * square, 1e-12 * before);
        const T scale = static_cast<T>(1.0 / std::sqrt(square)), other = static_cast<T>(1.0 / std::sqrt(left));
        for (std::size_t k = 0; k < dim; ++k) {
            second[k] = (second[k] - static_cast<T>(along) * first[k]) * other;
            first[k] *= scale;
        }
    } while (left < 0.9 * before);  // What was taken away took digits with it: once more.
}

// Where uniformly distributed planes are drawn from: a seed, and the number of the first plane.
struct RandomPlanes {
    std::uint64_t seed = 0;
    std::size_t first = 0;

    // The frame of a plane as rows (2, dim).
    void draw(std::size_t plane, std::size_t dim, float* rows) const {
        float *one = rows, *other = rows + dim;
        for (std::size_t k = 0; k < dim; ++k) {
            const NormalPair pair(seed, (first + plane) * dim + k);
            one[k] = pair.first;
            other[k] = pair.second;
        }
        if (dim == 2) {  // All planes are one: turning the first vector by a right angle has no cancellation to mend.
            const float side = one[0] * other[1] < one[1] * other[0] ? -1.0f : 1.0f;
            other[0] = -side * one[1], other[1] = side * one[0];
        }
        orthonormalize(one, other, dim);
    }
};

// From the vectors of a frame, one after the other, to its columns (dim, 2), and back.
template <class T>
void rows_to_frame(const T* rows, std::size_t dim, T* frame) {
    for (std::size_t k = 0; k < dim; ++k) frame[2 * k] = rows[k], frame[2 * k + 1] = rows[dim + k];
}

template <class T>
void frame_to_rows(const T* frame, std::size_t dim, T* rows) {
    for (std::size_t k = 0; k < dim; ++k) rows[k] = frame[2 * k], rows[dim + k] = frame[2 * k + 1];
}

}  // namespace sphereot
