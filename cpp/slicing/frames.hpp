// Orthonormal frames of planes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slicing/normal.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Orthonormalizes two linearly independent vectors in place by the Gram-Schmidt method. It is repeated when what was
// subtracted took digits with it.
template <Real T>
void orthonormalize(T* first, T* second, std::size_t dim) {
    constexpr double least_share = 1e-12;   // of the square of `second`, so that parallel vectors do not divide by 0
    constexpr double accurate_share = 0.9;  // if this much is left, so are its digits
    const auto dot = [dim](const T* a, const T* b) { return sum<T>(dim, [=](std::size_t k) { return a[k] * b[k]; }); };
    double before, left;
    do {
        const double square = dot(first, first), along = dot(first, second) / square;
        before = dot(second, second);
        left = std::max(before - along * along * square, least_share * before);
        const T scale = static_cast<T>(1.0 / std::sqrt(square)), other = static_cast<T>(1.0 / std::sqrt(left));
        for (std::size_t k = 0; k < dim; ++k) {
            second[k] = (second[k] - static_cast<T>(along) * first[k]) * other;
            first[k] *= scale;
        }
    } while (left < accurate_share * before);
}

// A stream of uniformly distributed planes: a seed, and the number of the first plane in the stream.
struct RandomPlanes {
    std::uint64_t seed = 0;
    std::size_t first = 0;

    // Writes the frame of a plane as rows (2, dim). Depends only on the seed, first + plane and dim.
    void draw(std::size_t plane, std::size_t dim, float* rows) const {
        float *one = rows, *other = rows + dim;
        for (std::size_t k = 0; k < dim; ++k) {
            const NormalPair pair(seed, (first + plane) * dim + k);
            one[k] = pair.first;
            other[k] = pair.second;
        }
        if (dim == 2) {  // There is one plane: rotating the first vector by a right angle avoids all cancellation.
            const float side = one[0] * other[1] < one[1] * other[0] ? -1.0f : 1.0f;
            other[0] = -side * one[1];
            other[1] = side * one[0];
        }
        orthonormalize(one, other, dim);
    }
};

// Copies the vectors of a frame from rows (2, dim) to columns (dim, 2).
template <Real T>
void rows_to_frame(const T* rows, std::size_t dim, T* frame) {
    for (std::size_t k = 0; k < dim; ++k) {
        frame[2 * k] = rows[k];
        frame[2 * k + 1] = rows[dim + k];
    }
}

// Copies the vectors of a frame from columns (dim, 2) to rows (2, dim).
template <Real T>
void frame_to_rows(const T* frame, std::size_t dim, T* rows) {
    for (std::size_t k = 0; k < dim; ++k) {
        rows[k] = frame[2 * k];
        rows[dim + k] = frame[2 * k + 1];
    }
}

// Writes the frames (planes, dim, 2) of the first planes of a stream.
inline void draw_frames(RandomPlanes stream, std::size_t planes, std::size_t dim, const Execution& execution,
                        float* frames) {
    parallel_for(planes, execution, [=](Watch& watch) {
        return [=, &watch, rows = std::vector<float>(2 * dim)](std::size_t plane) mutable {
            stream.draw(plane, dim, rows.data());
            rows_to_frame(rows.data(), dim, frames + plane * dim * 2);
            watch.pass(dim);
        };
    });
}

}  // namespace sphereot
