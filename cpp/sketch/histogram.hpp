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

// The unit of offsets in widths of a bin, and half of it: offsets were rounded down.
constexpr double offset_unit = 1.0 / (1 << offset_bits), half_offset = 0.5 * offset_unit;

// Writes the cumulative masses (bins + 1), scaled to a total of 1; returns the scale.
template <class Cell>
double write_levels(const Cell* mass, std::size_t bins, double* levels) {
    Cell total = 0;
    for (std::size_t j = 0; j < bins; ++j) total += mass[j];
    const double scale = 1.0 / static_cast<double>(total);
    Cell before = 0;
    levels[0] = 0.0;
    for (std::size_t j = 0; j < bins; ++j) {
        before += mass[j];
        // After the last point, 1 exactly: the empty bins that follow have no mass.
        levels[j + 1] = before == total ? 1.0 : static_cast<double>(before) * scale;
    }
    return scale;
}

// Writes the cumulative masses (bins + 1) of one circle, and the mean over each bin of the cumulative distribution
// function (bins): a point raises the mean by its mass times the rest of the bin behind it.
template <class Cell>
void write_level_row(const Cell* mass, const Cell* moment, double unit, std::size_t bins, double* levels,
                     double* means) {
    const double scale = write_levels(mass, bins, levels);
    for (std::size_t j = 0; j < bins; ++j) {
        const double all = static_cast<double>(mass[j]),
                     ahead = static_cast<double>(moment[j]) * unit + half_offset * all;
        means[j] = levels[j] + scale * (ahead < all ? all - ahead : 0.0);
    }
}

inline void write_level_row(const Histogram& from, std::size_t slice, double* levels, double* means) {
    const std::size_t first = slice * from.bins;
    if (from.counts) write_level_row(from.counts + first, from.offsets + first, offset_unit, from.bins, levels, means);
    else write_level_row(from.masses + first, from.moments + first, 1.0, from.bins, levels, means);
}

// The same for the uniform measure.
inline void write_uniform_row(std::size_t bins, double* levels, double* means) {
    const auto count = static_cast<double>(bins);
    for (std::size_t j = 0; j <= bins; ++j) levels[j] = static_cast<double>(j) / count;
    for (std::size_t j = 0; j < bins; ++j) means[j] = 0.5 * (levels[j] + levels[j + 1]);
}

// The bins of one circle, scaled to a total mass of 1.
struct CircleBins {
    std::vector<double> levels;   // (bins + 1), the cumulative masses
    std::vector<double> offsets;  // (bins), the mean offset in (0, 1); 1/2 for an empty bin
    std::vector<double> spread;   // (bins), the largest variance that the offsets can have: 0 for a single point

    explicit CircleBins(std::size_t bins) : levels(bins + 1), offsets(bins), spread(bins) {}

    std::size_t bins() const { return offsets.size(); }

    void read(const Histogram& from, std::size_t slice) {
        const std::size_t first = slice * from.bins;
        if (from.counts) read_cells(from.counts + first, from.offsets + first, offset_unit, std::uint64_t{1});
        else read_cells(from.masses + first, from.moments + first, 1.0, -1.0);
    }

private:
    // `single`: the mass of a bin that can hold one point only.
    template <class Cell>
    void read_cells(const Cell* mass, const Cell* moment, double unit, Cell single) {
        write_levels(mass, bins(), levels.data());
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
