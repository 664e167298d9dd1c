// Orthonormal frames of planes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "normal.hpp"
#include "sums.hpp"

namespace sphereot {

// The frame (dim, 2) of the plane through two vectors, given as rows (2, dim) and overwritten.
template <class T>
void gram_schmidt(T* vectors, std::size_t dim, T* frame) {
    T *first = vectors, *second = vectors + dim;
    const auto dot = [dim](const T* a, const T* b) { return sum<T>(dim, [=](std::size_t k) { return a[k] * b[k]; }); };
    const auto scale = [&](T* v) {
        const T factor = static_cast<T>(1.0 / std::sqrt(dot(v, v)));
        for (std::size_t k = 0; k < dim; ++k) v[k] *= factor;
    };
    scale(first);
    for (int pass = 0; pass < 2; ++pass) {  // The second takes away what cancellation left in nearly parallel pairs.
        const T along = static_cast<T>(dot(first, second));
        for (std::size_t k = 0; k < dim; ++k) second[k] -= along * first[k];
        scale(second);
    }
    for (std::size_t k = 0; k < dim; ++k) frame[2 * k] = first[k], frame[2 * k + 1] = second[k];
}

// The frame of a uniformly distributed plane, a function of the seed and of the number of the plane.
class RandomFrames {
  public:
    RandomFrames(std::uint64_t seed, std::size_t dim) : seed_(seed), dim_(dim), vectors_(2 * dim) {}

    void draw(std::size_t plane, float* frame) {
        for (std::size_t k = 0; k < dim_; ++k) {
            const NormalPair pair(seed_, plane * dim_ + k);
            vectors_[k] = pair.first;
            vectors_[dim_ + k] = pair.second;
        }
        gram_schmidt(vectors_.data(), dim_, frame);
    }

  private:
    std::uint64_t seed_;
    std::size_t dim_;
    std::vector<float> vectors_;
};

}  // namespace sphereot
