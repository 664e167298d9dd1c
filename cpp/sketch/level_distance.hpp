// W_1 between measures known by their bins, with an error bound.
//
// W_1 = min over alpha of the integral of |D - alpha|, D the difference of the cumulative distribution functions. The
// masses give D at the edges of the bins, and the mean offsets give its mean over each bin. The sum over bins of
// |mean - alpha| is at most the integral, and equal to it on bins where D - alpha cannot change its sign. The other bins
// enter the bound (docs/background/sketches.md).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sketch/histogram.hpp"
#include "support/parallel.hpp"

namespace sphereot {

// A median of n > 0 values. `scratch` is memory that callers keep.
//
// One pass counts the values in equal intervals, and a selection ends the search within one of them.
inline double median_of(const double* values, std::size_t n, std::vector<double>& scratch) {
    constexpr std::size_t intervals = 512;
    const std::size_t wanted = n / 2;
    double low = values[0], high = values[0];
#pragma omp simd reduction(min : low) reduction(max : high)
    for (std::size_t i = 0; i < n; ++i) {
        low = std::min(low, values[i]);
        high = std::max(high, values[i]);
    }
    const double scale = (static_cast<double>(intervals) - 0.5) / (high - low);
    if (!(scale < 0x1p1000)) return low;  // all values are equal, or nearly
    std::array<std::uint32_t, intervals> counts{};
    const auto interval_of = [=](double value) {
        return static_cast<std::size_t>(static_cast<std::int32_t>((value - low) * scale));
    };
    for (std::size_t i = 0; i < n; ++i) ++counts[interval_of(values[i])];
    std::size_t interval = 0, before = 0;
    while (before + counts[interval] <= wanted) before += counts[interval++];
    scratch.resize(n + 1);
    std::size_t inside = 0;
    for (std::size_t i = 0; i < n; ++i) {  // without a branch: what is not kept is overwritten
        scratch[inside] = values[i];
        inside += interval_of(values[i]) == interval;
    }
    const auto middle = scratch.begin() + static_cast<std::ptrdiff_t>(wanted - before);
    std::nth_element(scratch.begin(), middle, scratch.begin() + static_cast<std::ptrdiff_t>(inside));
    return *middle;
}

// W_1 is in [cost, cost + excess].
struct LevelDistance {
    double cost, excess;
};

// One measure on one circle: levels at the edges (bins + 1), and mean levels of the bins.
struct LevelRow {
    const double *levels, *means;
};

// W_1 of two measures on one circle. `gaps` and `scratch` are memory that callers keep.
inline LevelDistance level_distance(LevelRow x, LevelRow y, std::size_t bins, std::vector<double>& gaps,
                                    std::vector<double>& scratch) {
    gaps.resize(bins);
    double* gap = gaps.data();
    for (std::size_t j = 0; j < bins; ++j) gap[j] = x.means[j] - y.means[j];
    const double alpha = median_of(gap, bins, scratch);
    double cost = 0.0, excess = 0.0;
    const double *lx = x.levels, *ly = y.levels;
#pragma omp simd reduction(+ : cost, excess)
    for (std::size_t j = 0; j < bins; ++j) {
        // D - alpha is between -below and above in the bin, and has this mean. |D - alpha| has the largest mean if D
        // takes no value between the two.
        const double below = alpha - (lx[j] - ly[j + 1]), above = (lx[j + 1] - ly[j]) - alpha, mean = gap[j] - alpha;
        const double one = below * (above - mean), other = above * (below + mean);
        const double both = one < other ? one : other;
        cost += std::fabs(mean);
        excess += below > 0.0 && above > 0.0 && both > 0.0 ? 2.0 * both / (below + above) : 0.0;
    }
    const double width = 1.0 / static_cast<double>(bins);
    return {width * cost, width * excess};
}

// Writes costs and excesses (slices, pairs) of the pairs i < j of measures, for slices one after the other; of the
// first measure with the uniform one if there is only one.
class LevelWorker {
public:
    LevelWorker(const std::vector<Histogram>& measures, double* cost, double* excess, Watch& watch)
        : measures_(measures),
          bins_(measures.front().bins),
          count_(std::max<std::size_t>(measures.size(), 2)),
          cost_(cost),
          excess_(excess),
          watch_(watch),
          rows_(count_ * (2 * bins_ + 1)) {}

    void operator()(std::size_t slice) {
        for (std::size_t i = 0; i < count_; ++i) {
            double *levels = rows_.data() + i * (2 * bins_ + 1), *means = levels + bins_ + 1;
            if (i < measures_.size()) write_level_row(measures_[i], slice, levels, means);
            else write_uniform_row(bins_, levels, means);
        }
        std::size_t pair = slice * (count_ * (count_ - 1) / 2);
        for (std::size_t i = 0; i < count_; ++i)
            for (std::size_t j = i + 1; j < count_; ++j, ++pair) {
                const LevelDistance distance = level_distance(row(i), row(j), bins_, gaps_, scratch_);
                cost_[pair] = distance.cost;
                excess_[pair] = distance.excess;
                watch_.pass(bins_);
            }
    }

private:
    LevelRow row(std::size_t i) const {
        const double* levels = rows_.data() + i * (2 * bins_ + 1);
        return {levels, levels + bins_ + 1};
    }

    const std::vector<Histogram>& measures_;
    std::size_t bins_, count_;
    double *cost_, *excess_;
    Watch& watch_;
    std::vector<double> rows_, gaps_, scratch_;
};

// Costs and excesses (slices, pairs), as `LevelWorker` writes them. Memory: threads times measures times 16 bytes per
// bin.
inline void level_distances(const std::vector<Histogram>& measures, const Execution& execution, double* cost,
                            double* excess) {
    parallel_for(measures.front().slices, execution,
                 [&](Watch& watch) { return LevelWorker(measures, cost, excess, watch); });
}

}  // namespace sphereot
