// Histograms of points on great circles: how many points each bin of each circle has, and the sum of their offsets.
//
// Coordinates are rounded to multiples of 2^-29 and frames are multiples of 2^-23, so that every product and every
// partial sum of a projection is a multiple of 2^-52 below 2: exact in double precision, in any order and with or
// without fused multiply-add. Turns are integers (sketch/integer_turns.hpp), and what is added up are integers too. The
// result has the same bits for every instruction set, number of threads, and division of the points.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "sketch/integer_turns.hpp"
#include "sketch/limbs.hpp"
#include "slicing/gemm.hpp"
#include "support/compiler.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

// The offset of a point in its bin is an integer in [0, 2^16).
inline constexpr int offset_bits = 16;

// Squared lengths of projections below which points are counted: there rounding moves them farther on the circle.
inline constexpr std::size_t near_count = 3;
using NearSquares = std::array<float, near_count>;

// What is counted, as arrays that `BinCounts` does not own. With weights each is followed by one of the same shape, for
// the lower limb.
struct BinCounts {
    std::size_t slices, bins;
    std::uint64_t *mass, *moment;  // (slices, bins)
    std::uint64_t* near;           // (slices, near_count)
};

// The points to count. Weights, if not null, are two limbs per point.
template <Real T>
struct CountedPoints {
    std::size_t count, dim;
    const T* points;  // (count, dim)
    const std::uint64_t *weights_high, *weights_low;
};

// The nearest multiple of 2^-29, for |x| < 2.
inline double on_coordinate_grid(double x) {
    constexpr double rounder = 0x1.8p23;  // doubles of this size are multiples of 2^-29
    return (x + rounder) - rounder;
}

// The highest dimension that is projected slice by slice.
inline constexpr std::size_t largest_dim_by_slice = 8;

// Points that are projected and counted together: their coordinates are in the L2 cache, and sums of as many lower
// limbs do not overflow.
inline std::size_t points_per_chunk(std::size_t dim) {
    if (dim <= largest_dim_by_slice) return std::size_t{1} << 14;
    constexpr std::size_t least = 256, most = 2048, coordinates = std::size_t{1} << 17;
    return std::clamp<std::size_t>(coordinates / dim, least, most);
}

// How many slices share a conversion of the points. A product converts to panels, which takes longer.
inline std::size_t most_slices_per_run(std::size_t dim) { return dim <= largest_dim_by_slice ? 32 : 100; }

// Adds the points to runs of slices [first, first + count).
template <Real T>
class CountWorker {
public:
    CountWorker(const CountedPoints<T>& points, const double* frames, const NearSquares& near_squares,
                const BinCounts& out, std::size_t run_length, Watch& watch)
        : points_(points),
          frames_(frames),
          near_squares_(near_squares),
          out_(out),
          watch_(watch),
          chunk_(std::min(points_per_chunk(points.dim), points.count)),
          columns_(std::make_unique_for_overwrite<double[]>(by_slice() ? chunk_ * points.dim : 0)),
          planar_(std::make_unique_for_overwrite<double[]>(by_slice() ? 0 : 2 * slices_per_product * chunk_)),
          packed_counts_(points.weights_high ? 0 : run_length * out.bins) {}

    void operator()(std::size_t first, std::size_t count) {
        if (!by_slice()) pack_frames(first, count);
        std::size_t unflushed = 0;
        for (std::size_t begin = 0; begin < points_.count; begin += chunk_) {
            const std::size_t size = std::min(chunk_, points_.count - begin);
            if (by_slice()) load_columns(begin, size);
            else load_panels(begin, size);
            for (std::size_t l = 0; l < count; ++l) {
                if (!by_slice() && l % slices_per_product == 0) multiply(l / slices_per_product, size);
                if (points_.weights_high) count_weighted(first + l, l, begin, size);
                else count_plain(first + l, l, size);
                watch_.pass(size);
            }
            unflushed += size;
            if (points_.weights_high || (unflushed < points_per_flush && begin + size < points_.count)) continue;
            flush(first, count);
            unflushed = 0;
        }
    }

private:
    static constexpr std::size_t block = 512;
    static constexpr std::size_t slices_per_product = 16;  // whose planar points are in the L2 cache
    static constexpr int count_shift = 40;
    static constexpr std::uint64_t one_point = std::uint64_t{1} << count_shift;
    static constexpr std::size_t points_per_flush = std::size_t{1} << 22;  // the sum of as many offsets is below 2^40

    bool by_slice() const { return points_.dim <= largest_dim_by_slice; }

    double coordinate(const T* from, std::size_t i, std::size_t k) const {
        return on_coordinate_grid(static_cast<double>(from[i * points_.dim + k]));
    }

    // Writes coordinates (dim, size) of a chunk.
    void load_columns(std::size_t begin, std::size_t size) {
        const T* from = points_.points + begin * points_.dim;
        for (std::size_t k = 0; k < points_.dim; ++k)
            for (std::size_t i = 0; i < size; ++i) columns_[k * size + i] = coordinate(from, i, k);
    }

    void load_panels(std::size_t begin, std::size_t size) {
        const T* from = points_.points + begin * points_.dim;
        if (!panels_ || panels_->columns() != size) panels_.emplace(points_.dim, size);
        panels_->fill_with([=, this](std::size_t k, std::size_t i) { return coordinate(from, i, k); });
    }

    // The frames of a run as left factors, one for each product.
    void pack_frames(std::size_t first, std::size_t count) {
        frame_rows_.clear();
        for (std::size_t l = 0; l < count; l += slices_per_product)
            frame_rows_.push_back(packed_left<double>(
                2 * std::min(slices_per_product, count - l), points_.dim, [&](std::size_t j, std::size_t r) {
                    return frames_[((first + l + r / 2) * points_.dim + j) * 2 + r % 2];
                }));
    }

    // Projects the loaded chunk on the slices of one product, to planar points (2 slices, size).
    void multiply(std::size_t product, std::size_t size) {
        const auto& factor = frame_rows_[product];
        gemm_packed<double>(factor.size() / points_.dim, points_.dim, factor, *panels_, {planar_.get(), size},
                            Accumulate::no);
    }

    // Calls sink(begin, count, turns, squares) for blocks of points of a chunk; l is the index of the slice in its run.
    template <class Sink>
    void for_each_block(std::size_t slice, std::size_t l, std::size_t size, Sink sink) {
        std::uint32_t turns[block];
        float squares[block];
        for (std::size_t begin = 0; begin < size; begin += block) {
            const std::size_t count = std::min(block, size - begin);
            if (by_slice()) {
                double first[block], second[block];
                project(slice, begin, count, size, first, second);
                integer_turns(first, second, count, turns, squares);
            } else {
                const double* row = planar_.get() + 2 * (l % slices_per_product) * size + begin;
                integer_turns(row, row + size, count, turns, squares);
            }
            sink(begin, count, static_cast<const std::uint32_t*>(turns), static_cast<const float*>(squares));
        }
    }

    void project(std::size_t slice, std::size_t begin, std::size_t count, std::size_t size, double* first,
                 double* second) const {
        const double *frame = frames_ + slice * points_.dim * 2, *columns = columns_.get() + begin;
        const auto sum_coordinates = [=]<std::size_t dim>(std::integral_constant<std::size_t, dim>) {
            double u[dim], v[dim];
            for (std::size_t k = 0; k < dim; ++k) u[k] = frame[2 * k], v[k] = frame[2 * k + 1];
#pragma omp simd
            for (std::size_t i = 0; i < count; ++i) {
                double along = 0.0, across = 0.0;
                for (std::size_t k = 0; k < dim; ++k) {
                    along += u[k] * columns[k * size + i];
                    across += v[k] * columns[k * size + i];
                }
                first[i] = along;
                second[i] = across;
            }
        };
        static_assert(largest_dim_by_slice == 8);
        switch (points_.dim) {
            case 2:
                return sum_coordinates(std::integral_constant<std::size_t, 2>{});
            case 3:
                return sum_coordinates(std::integral_constant<std::size_t, 3>{});
            case 4:
                return sum_coordinates(std::integral_constant<std::size_t, 4>{});
            case 5:
                return sum_coordinates(std::integral_constant<std::size_t, 5>{});
            case 6:
                return sum_coordinates(std::integral_constant<std::size_t, 6>{});
            case 7:
                return sum_coordinates(std::integral_constant<std::size_t, 7>{});
            default:
                return sum_coordinates(std::integral_constant<std::size_t, 8>{});
        }
    }

    // Counts points without weights. A word of scratch memory has the count above bit 40 and the sum of offsets below:
    // one addition per point, in half the memory. l is the index of the slice in its run.
    void count_plain(std::size_t slice, std::size_t l, std::size_t size) {
        const std::uint64_t bins = out_.bins;
        std::uint64_t *near = out_.near + slice * near_count, *packed = packed_counts_.data() + l * bins;
        for_each_block(slice, l, size,
                       [&](std::size_t, std::size_t count, const std::uint32_t* turns, const float* squares) {
                           for (std::size_t k = 0; k < near_count; ++k) {
                               const float limit = near_squares_[k];
                               std::uint32_t below = 0;
                               for (std::size_t i = 0; i < count; ++i) below += squares[i] < limit;
                               near[k] += below;
                           }
                           for (std::size_t i = 0; i < count; ++i) {
                               const std::uint64_t position = turns[i] * bins;
                               SPHEREOT_NO_VECTORIZE;
                               packed[position >> turn_bits] += one_point + offset_of(position);
                           }
                       });
    }

    // Adds what count_plain has counted on `count` slices, and clears it.
    void flush(std::size_t first, std::size_t count) {
        std::uint64_t* packed = packed_counts_.data();
        std::uint64_t *mass = out_.mass + first * out_.bins, *moment = out_.moment + first * out_.bins;
        for (std::size_t j = 0; j < count * out_.bins; ++j) {
            mass[j] += packed[j] >> count_shift;
            moment[j] += packed[j] & (one_point - 1);
            packed[j] = 0;
        }
    }

    void count_weighted(std::size_t slice, std::size_t l, std::size_t first, std::size_t size) {
        const std::uint64_t bins = out_.bins;
        const std::size_t lower = out_.slices * bins, lower_near = out_.slices * near_count;
        std::uint64_t *mass = out_.mass + slice * bins, *moment = out_.moment + slice * bins;
        std::uint64_t* near = out_.near + slice * near_count;
        const auto* high = points_.weights_high + first;
        const auto* low = points_.weights_low + first;
        for_each_block(slice, l, size,
                       [&](std::size_t begin, std::size_t count, const std::uint32_t* turns, const float* squares) {
                           for (std::size_t i = 0; i < count; ++i) {
                               const std::uint64_t h = high[begin + i], w = low[begin + i];
                               const std::uint64_t position = turns[i] * bins, bin = position >> turn_bits;
                               const std::uint64_t offset = offset_of(position), product = h * offset;
                               mass[bin] += h;
                               mass[bin + lower] += w;
                               // The weight times the offset, in [0, 1), rounded down.
                               moment[bin] += product >> offset_bits;
                               moment[bin + lower] += ((product & (offsets - 1)) << (limb_bits - offset_bits)) +
                                                      ((w * offset) >> offset_bits);
                               for (std::size_t k = 0; k < near_count; ++k)
                                   if (squares[i] < near_squares_[k]) {
                                       near[k] += h;
                                       near[k + lower_near] += w;
                                   }
                           }
                       });
        carry_limbs(mass, mass + lower, bins);
        carry_limbs(moment, moment + lower, bins);
        carry_limbs(near, near + lower_near, near_count);
    }

    static constexpr std::uint64_t offsets = std::uint64_t{1} << offset_bits;
    static std::uint64_t offset_of(std::uint64_t position) {
        return (position >> (turn_bits - offset_bits)) & (offsets - 1);
    }

    CountedPoints<T> points_;
    const double* frames_;
    NearSquares near_squares_;
    BinCounts out_;
    Watch& watch_;
    std::size_t chunk_;
    std::unique_ptr<double[]> columns_, planar_;
    std::vector<std::uint64_t> packed_counts_;
    std::vector<std::vector<double>> frame_rows_;
    std::optional<Panels<double>> panels_;
};

// Adds points to the counts of all slices. Requires unit vectors, orthonormal frames (slices, dim, 2) whose numbers are
// multiples of 2^-23, dim >= 2, and at most 2^14 bins.
template <Real T>
void count_points(const CountedPoints<T>& points, const double* frames, const NearSquares& near_squares,
                  const BinCounts& out, const Execution& execution) {
    const std::size_t threads = std::max<std::size_t>(execution.threads, 1);
    const std::size_t per_thread = (out.slices + threads - 1) / threads;
    const std::size_t most = most_slices_per_run(points.dim), runs = (per_thread + most - 1) / most;
    const std::size_t run_length = (per_thread + runs - 1) / runs;
    parallel_for((out.slices + run_length - 1) / run_length, execution, [&](Watch& watch) {
        return [&, worker =
                       CountWorker<T>(points, frames, near_squares, out, run_length, watch)](std::size_t run) mutable {
            worker(run * run_length, std::min(run_length, out.slices - run * run_length));
        };
    });
}

}  // namespace sphereot
