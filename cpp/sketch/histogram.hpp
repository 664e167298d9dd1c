// Measures that are known by their bins on great circles: masses and mean offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sketch/bin_counts.hpp"

namespace sphereot {

// The bins of one measure on all circles, as integers (counts and sums of offsets) or as masses. It does not own the
// memory; arrays are (slices, bins). Each slice has the same total, which is positive.
struct Histogram {
    std::size_t slices, bins;
    const std::uint64_t *counts, *offsets;  // null if there are masses
    const double *masses, *moments;         // moment: the mass times the mean offset in [0, 1), rounded down

    // The slices [first, first + count).
    Histogram from_slice(std::size_t first, std::size_t count) const {
        const std::size_t skipped = first * bins;
        if (counts) return {count, bins, counts + skipped, offsets + skipped, nullptr, nullptr};
        return {count, bins, nullptr, nullptr, masses + skipped, moments + skipped};
    }
};

// The bins of one circle, scaled to a total mass of 1.
struct CircleBins {
    std::vector<double> levels;   // (bins + 1), the cumulative masses
    std::vector<double> offsets;  // (bins), the mean offset in (0, 1); 1/2 for an empty bin
    std::vector<double> spread;   // (bins), the largest variance that the offsets can have: 0 for a single point

    explicit CircleBins(std::size_t bins) : levels(bins + 1), offsets(bins), spread(bins) {}

    std::size_t bins() const { return offsets.size(); }

    void read(const Histogram& from, std::size_t slice) {
        const std::size_t first = slice * from.bins;
        if (from.counts)
            read_cells(from.counts + first, from.offsets + first, 1.0 / (1 << offset_bits), std::uint64_t{1});
        else read_cells(from.masses + first, from.moments + first, 1.0, -1.0);
    }

    // The uniform measure.
    void set_uniform() {
        const auto count = static_cast<double>(bins());
        for (std::size_t j = 0; j <= bins(); ++j) levels[j] = static_cast<double>(j) / count;
        offsets.assign(bins(), 0.5);
    }

    // Writes the mean over each bin of the cumulative distribution function.
    void write_mean_levels(double* means) const {
        for (std::size_t j = 0; j < bins(); ++j)
            means[j] = levels[j] + (levels[j + 1] - levels[j]) * (1.0 - offsets[j]);
    }

private:
    // `single`: the mass of a bin that can hold one point only.
    template <class Cell>
    void read_cells(const Cell* mass, const Cell* moment, double unit, Cell single) {
        constexpr double half_offset = 0.5 / (1 << offset_bits);  // offsets were rounded down
        Cell total = 0;
        for (std::size_t j = 0; j < bins(); ++j) total += mass[j];
        const double scale = 1.0 / static_cast<double>(total);
        Cell before = 0;
        levels[0] = 0.0;
        for (std::size_t j = 0; j < bins(); ++j) {
            before += mass[j];
            // After the last point, 1 exactly: the empty bins that follow have no mass.
            levels[j + 1] = before == total ? 1.0 : static_cast<double>(before) * scale;
        }
        for (std::size_t j = 0; j < bins(); ++j) {
            const bool empty = !(mass[j] > Cell{0});
            const double divisor = empty ? 1.0 : static_cast<double>(mass[j]);
            const double offset = static_cast<double>(moment[j]) * unit / divisor + half_offset;
            offsets[j] = empty ? 0.5 : offset < 1.0 ? offset : 1.0;
            spread[j] = empty || mass[j] == single ? 0.0 : offsets[j] * (1.0 - offsets[j]);
        }
    }
};

}  // namespace sphereot
