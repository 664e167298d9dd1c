// SSW_2 to the uniform distribution without slices: the double sum of the kernel K_d over all pairs of points, its
// gradient in the points, and the row sums that give the gradient in the weights.
//
// Pairs are taken in square tiles, each pair once. No array of pairs larger than a tile is held.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "circle/uniform_kernel.hpp"
#include "slicing/gemm.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

template <Real T>
struct EnergyProblem {
    std::size_t n, dim;
    const T* points;        // (n, dim), of length 1
    const double* weights;  // (n,), with a total of 1; null for equal weights
    UniformKernel<T> kernel;
};

template <Real T>
struct EnergyResult {
    double* potentials;  // (n,): sum over j of weight_j K(x_i, x_j); null if not wanted and weights are equal
    T* gradient;         // (n, dim): of the double sum; null if not wanted
};

constexpr std::size_t tile_size = 64;

// The points of one tile, as the products read them.
template <Real T>
struct TilePoints {
    std::size_t first, count;
    Panels<T> columns;    // (dim, count): the transpose of the points
    Panels<T> rows;       // (count, dim)
    std::vector<T> left;  // the points as a left factor; empty in few dimensions
};

// In at most this number of dimensions, angles come from differences of coordinates.
constexpr std::size_t largest_dim_by_differences = 8;

// Sums over the pairs of some tiles: those of one group.
template <Real T>
struct EnergySums {
    double diagonal = 0.0, off_diagonal = 0.0;  // sums of weighted kernel values, over pairs i = j and i < j
    std::vector<double> potentials;
    std::vector<T> pulls;    // (n, dim): sum over j of W_ij x_j
    std::vector<T> cosines;  // (n,): sum over j of W_ij <x_i, x_j>
};

// Copies points (n, dim) and scales them to length 1: their lengths are known to a tolerance only.
template <Real T>
std::vector<T> unit_points(std::size_t n, std::size_t dim, const T* points) {
    std::vector<T> unit(n * dim);
    for (std::size_t i = 0; i < n; ++i) {
        const T* x = points + i * dim;
        T square = T(0);
#pragma omp simd reduction(+ : square)
        for (std::size_t k = 0; k < dim; ++k) square += x[k] * x[k];
        const T scale = T(1) / std::sqrt(square);
        for (std::size_t k = 0; k < dim; ++k) unit[i * dim + k] = scale * x[k];
    }
    return unit;
}

// Computes one tile after another and adds it to the sums of a group.
template <Real T, bool with_gradient, bool with_potentials>
class TileWorker {
public:
    TileWorker(const EnergyProblem<T>& problem, const std::vector<TilePoints<T>>& tiles, Watch& watch)
        : problem_(problem),
          tiles_(tiles),
          watch_(watch),
          cosines_(tile_size * tile_size),
          pulls_(with_gradient ? tile_size * tile_size : 0) {}

    // The pairs between the points of two tiles, or within one; each pair of different points counts once.
    void operator()(std::size_t first, std::size_t second, EnergySums<T>& sums) {
        const TilePoints<T>&left = tiles_[first], &right = tiles_[second];
        const bool same = first == second;
        multiply(left, right);
        for (std::size_t i = 0; i < left.count; ++i) {
            const std::size_t begin = same ? i + 1 : 0;
            row(left, right, i, begin, sums);
        }
        if constexpr (with_gradient) {
            if (same) mirror(left.count);
            pull(left, right, sums);
        }
        watch_.pass(left.count * right.count);
    }

private:
    double weight(std::size_t i) const { return problem_.weights ? problem_.weights[i] : 1.0; }

    // Inner products of the points of two tiles. In few dimensions 1 - 2 h^2 from differences of coordinates: for close
    // points that is more precise, and as fast.
    void multiply(const TilePoints<T>& left, const TilePoints<T>& right) {
        const std::size_t dim = problem_.dim;
        if (dim > largest_dim_by_differences) {
            gemm_packed(left.count, dim, left.left, right.columns, Matrix<T>{cosines_.data(), tile_size},
                        Accumulate::no);
            return;
        }
        const T* y = problem_.points + right.first * dim;
        for (std::size_t k = 0; k < dim; ++k)
            for (std::size_t j = 0; j < right.count; ++j) coordinates_[k * tile_size + j] = y[j * dim + k];
        for (std::size_t i = 0; i < left.count; ++i) {
            const T* x = problem_.points + (left.first + i) * dim;
            T* out = cosines_.data() + i * tile_size;
            std::fill_n(out, right.count, T(1));
            for (std::size_t k = 0; k < dim; ++k) {
                const T* row = coordinates_ + k * tile_size;
                const T center = x[k];
#pragma omp simd
                for (std::size_t j = 0; j < right.count; ++j) {
                    const T difference = row[j] - center;
                    out[j] -= T(0.5) * difference * difference;
                }
            }
        }
    }

    // Kernel values of the pairs (i, j >= begin) of a tile, added up; and with gradients W_ij, the weighted
    // derivatives.
    void row(const TilePoints<T>& left, const TilePoints<T>& right, std::size_t i, std::size_t begin,
             EnergySums<T>& sums) {
        const T* cosine = cosines_.data() + i * tile_size;
        T values[tile_size], derivatives[tile_size];
        const UniformKernel<T>& kernel = problem_.kernel;
#pragma omp simd
        for (std::size_t j = begin; j < right.count; ++j) {
            const auto value = kernel.template operator()<with_gradient>(T(0.5) - T(0.5) * cosine[j]);
            values[j] = value.kernel;
            if constexpr (with_gradient) derivatives[j] = value.derivative;
        }
        const double own = weight(left.first + i);
        double total = 0.0;
        if (problem_.weights) {
            const double* weights = problem_.weights + right.first;
            for (std::size_t j = begin; j < right.count; ++j) total += weights[j] * static_cast<double>(values[j]);
        } else {
#pragma omp simd reduction(+ : total)
            for (std::size_t j = begin; j < right.count; ++j) total += static_cast<double>(values[j]);
        }
        sums.off_diagonal += own * total;
        if constexpr (with_potentials) {
            sums.potentials[left.first + i] += total;
            double* potentials = sums.potentials.data() + right.first;
#pragma omp simd
            for (std::size_t j = begin; j < right.count; ++j) potentials[j] += own * static_cast<double>(values[j]);
        }
        if constexpr (with_gradient) {
            T* pulls = pulls_.data() + i * tile_size;
            if (problem_.weights) {
                const double* weights = problem_.weights + right.first;
                const double factor = own * static_cast<double>(problem_.n) * static_cast<double>(problem_.n);
                for (std::size_t j = begin; j < right.count; ++j)
                    pulls[j] = derivatives[j] * static_cast<T>(factor * weights[j]);
            } else {
                std::copy(derivatives + begin, derivatives + right.count, pulls + begin);
            }
            T moment = T(0);
            T* moments = sums.cosines.data() + right.first;
#pragma omp simd reduction(+ : moment)
            for (std::size_t j = begin; j < right.count; ++j) {
                const T term = pulls[j] * cosine[j];
                moment += term;
                moments[j] += term;
            }
            sums.cosines[left.first + i] += moment;
        }
    }

    // Makes the derivatives between the points of one tile symmetric: those of pairs (i, j < i) are not computed.
    void mirror(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            pulls_[i * tile_size + i] = T(0);
            for (std::size_t j = 0; j < i; ++j) pulls_[i * tile_size + j] = pulls_[j * tile_size + i];
        }
    }

    // Adds W y to the sums of the left points, and W^T x to those of the right ones, if these are others.
    void pull(const TilePoints<T>& left, const TilePoints<T>& right, EnergySums<T>& sums) {
        const std::size_t dim = problem_.dim;
        const T* w = pulls_.data();
        gemm(
            left.count, right.count, [=](std::size_t j, std::size_t r) { return w[r * tile_size + j]; }, right.rows,
            Matrix<T>{sums.pulls.data() + left.first * dim, dim}, Accumulate::yes, copy_);
        if (left.first == right.first) return;
        gemm(
            right.count, left.count, [=](std::size_t j, std::size_t r) { return w[j * tile_size + r]; }, left.rows,
            Matrix<T>{sums.pulls.data() + right.first * dim, dim}, Accumulate::yes, copy_);
    }

    const EnergyProblem<T>& problem_;
    const std::vector<TilePoints<T>>& tiles_;
    Watch& watch_;
    std::vector<T> cosines_, pulls_, copy_;
    T coordinates_[largest_dim_by_differences * tile_size];
};

// The double sum over all pairs, i = j included, with its gradients. Pairs of tiles are divided among `groups`, a
// number that must depend on the sizes only, so that the threads do not change the result.
template <Real T, bool with_gradient, bool with_potentials>
double sum_pairs(const EnergyProblem<T>& problem, const EnergyResult<T>& result, std::size_t groups,
                 const Execution& execution) {
    const std::size_t n = problem.n, dim = problem.dim, count = (n + tile_size - 1) / tile_size;
    std::vector<TilePoints<T>> tiles;
    tiles.reserve(count);
    for (std::size_t t = 0; t < count; ++t) {
        const std::size_t first = t * tile_size, size = std::min(tile_size, n - first);
        const T* points = problem.points + first * dim;
        tiles.push_back({first, size, Panels<T>(dim, size), Panels<T>(size, with_gradient ? dim : 1), {}});
        if (dim > largest_dim_by_differences)
            tiles.back().left =
                packed_left<T>(size, dim, [=](std::size_t j, std::size_t r) { return points[r * dim + j]; });
        tiles.back().columns.fill_transposed(points);
        if constexpr (with_gradient) tiles.back().rows.fill(points, size);
    }
    std::vector<EnergySums<T>> sums(groups);
    // Group g takes every `groups`-th pair of tiles, so that all have about the same work.
    parallel_for(groups, execution, [&](Watch& watch) {
        return [&, worker = TileWorker<T, with_gradient, with_potentials>(problem, tiles, watch)](
                   std::size_t group) mutable {
            EnergySums<T>& own = sums[group];
            if constexpr (with_potentials) own.potentials.assign(n, 0.0);
            if constexpr (with_gradient) {
                own.pulls.assign(n * dim, T(0));
                own.cosines.assign(n, T(0));
            }
            std::size_t pair = 0;
            for (std::size_t first = 0; first < count; ++first)
                for (std::size_t second = first; second < count; ++second, ++pair)
                    if (pair % groups == group) worker(first, second, own);
        };
    });
    const double scale = problem.weights ? 1.0 : 1.0 / static_cast<double>(n);
    double off_diagonal = 0.0, squares = 0.0;
    const double at_zero = problem.kernel.at_zero();
    for (const auto& part : sums) off_diagonal += part.off_diagonal;
    for (std::size_t i = 0; i < n; ++i) {
        const double weight = problem.weights ? problem.weights[i] : scale;
        squares += weight * weight;
        if constexpr (with_potentials) {
            double potential = 0.0;
            for (const auto& part : sums) potential += part.potentials[i];
            result.potentials[i] = potential * scale + weight * at_zero;
        }
    }
    if constexpr (with_gradient) {
        const T factor = static_cast<T>(2.0 / (static_cast<double>(n) * static_cast<double>(n)));
        for (std::size_t i = 0; i < n; ++i) {
            T moment = T(0);
            for (const auto& part : sums) moment += part.cosines[i];
            const T* x = problem.points + i * dim;
            T* out = result.gradient + i * dim;
#pragma omp simd
            for (std::size_t k = 0; k < dim; ++k) out[k] = -moment * x[k];
            for (const auto& part : sums) {
                const T* pulls = part.pulls.data() + i * dim;
#pragma omp simd
                for (std::size_t k = 0; k < dim; ++k) out[k] += pulls[k];
            }
#pragma omp simd
            for (std::size_t k = 0; k < dim; ++k) out[k] *= factor;
        }
    }
    return 2.0 * off_diagonal * scale * scale + squares * at_zero;
}

template <Real T>
double sum_pairs(const EnergyProblem<T>& problem, const EnergyResult<T>& result, std::size_t groups,
                 const Execution& execution) {
    if (result.gradient && result.potentials) return sum_pairs<T, true, true>(problem, result, groups, execution);
    if (result.gradient) return sum_pairs<T, true, false>(problem, result, groups, execution);
    if (result.potentials) return sum_pairs<T, false, true>(problem, result, groups, execution);
    return sum_pairs<T, false, false>(problem, result, groups, execution);
}

}  // namespace sphereot
