// The atoms of one measure on one circle, sorted.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "circle/grid.hpp"
#include "circle/partition.hpp"
#include "circle/radix_sort.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Cumulative masses are multiples of 2^-52, the spacing of doubles just above 1: their sums and differences are exact,
// and a mass too small to matter is 0 instead of a number whose inverse overflows.
inline constexpr double mass_units = 4503599627370496.0;

inline double whole_units(double mass) { return (1.0 + mass) - 1.0; }

// Sorted atoms and, where the masses are needed, their cumulative sums. Owns its memory, which is reused slice after
// slice: one object a measure a thread.
template <class T>
class Atoms {
public:
    using Key = typename Grid<T>::Key;

    explicit Atoms(std::size_t n) : n_(n), keys_(n), spare_(n), turns_(n + 1 + part_slack) {}

    std::size_t size() const { return n_; }

    // Where a slice writes its keys, block by block, before `sort`; every block is announced with `count`.
    Key* begin_keys() {
        counts_.clear();
        return keys_.data();
    }
    void count(const Key* keys, std::size_t n) { counts_.template add<key_shift>(keys, n); }

    // Sorts atoms of equal weight.
    void sort() {
        Key* sorted = sort_leading_bits<key_shift>(keys_.data(), spare_.data(), n_, counts_);
        if constexpr (key_shift > 0)
            sort_tied_runs(sorted, n_, [](Key key) { return key >> key_shift; }, std::less<>{});
        for (std::size_t i = 0; i < n_; ++i) turns_[i] = Grid<T>::turn(sorted[i]);
        turns_[n_] = turns_[0] + T(1);
    }

    // Sorts atoms and remembers where each one came from.
    void sort_with_places() {
        places_.resize(n_);
        if (n_ <= most_short_places) {
            words_.resize(2 * n_);
            const auto* sorted =
                sort_short_places<key_shift>(keys_.data(), words_.data(), words_.data() + n_, n_, counts_);
            for (std::size_t i = 0; i < n_; ++i) places_[i] = sorted[i] & 0xFFFFu;
        } else {
            tagged_.resize(2 * n_);
            for (std::size_t i = 0; i < n_; ++i) tagged_[i] = (std::uint64_t{keys_[i] >> key_shift} << 32) | i;
            const auto* sorted = sort_leading_bits<32>(tagged_.data(), tagged_.data() + n_, n_, counts_);
            for (std::size_t i = 0; i < n_; ++i) places_[i] = static_cast<std::uint32_t>(sorted[i]);
        }
        if constexpr (key_shift > 0)
            sort_tied_runs(
                places_.data(), n_, [&](std::uint32_t place) { return keys_[place] >> key_shift; },
                [&](std::uint32_t one, std::uint32_t other) { return keys_[one] < keys_[other]; });
        for (std::size_t i = 0; i < n_; ++i) turns_[i] = Grid<T>::turn(keys_[places_[i]]);
        turns_[n_] = turns_[0] + T(1);
    }

    // After `sort_with_places`: the place of the i-th sorted atom in the input.
    std::uint32_t place(std::size_t i) const { return places_[i]; }

    // After `sort_with_places`: cumulative masses, scaled to a total of 1.
    void set_masses(const double* weights) {
        masses_.resize(n_ + 1 + window, 2.0);
        // Dividing by the largest keeps the sum of extreme weights within range; a power of two does not round.
        const double largest = *std::max_element(weights, weights + n_);
        const int exponent = std::clamp(std::ilogb(largest), -1000, 1000);
        const double scale = std::ldexp(1.0, -exponent);
        double total = 0.0;
        masses_[0] = 0.0;
        for (std::size_t i = 0; i < n_; ++i) masses_[i + 1] = total += scale * weights[place(i)];
        for (std::size_t i = 1; i <= n_; ++i) masses_[i] = whole_units(masses_[i] / total);
        total_ = std::ldexp(total, exponent);
        build_guide();
    }

    // Cumulative masses of equal weights, for comparison with a measure of another size or with weights. They do not
    // depend on the slice, so they are made once.
    void set_equal_masses() {
        if (!masses_.empty()) return;
        masses_.resize(n_ + 1 + window, 2.0);
        for (std::size_t i = 0; i <= n_; ++i)
            masses_[i] = whole_units(static_cast<double>(i) / static_cast<double>(n_));
        build_guide();
    }

    // The sum of the weights before they were scaled.
    double total_weight() const { return total_; }

    // Atoms that come in order already: where to write their turns, with `part_slack` to spare.
    T* begin_sorted() { return turns_.data(); }
    void end_sorted() { turns_[n_] = turns_[0] + T(1); }

    // n + 1 turns: the last is the first, one turn on.
    std::span<const T> turns() const { return {turns_.data(), n_ + 1}; }
    // n + 1 cumulative masses from 0 to 1.
    std::span<const double> masses() const { return {masses_.data(), n_ + 1}; }

    bool has_masses() const { return !masses_.empty(); }

    // The mean turn: the integral of the quantile function.
    double mean() const {
        const T* turn = turns_.data();
        const double* mass = masses_.data();
        if (masses_.empty())
            return sphereot::sum<T>(n_, [=](std::size_t i) { return turn[i]; }) / static_cast<double>(n_);
        return sphereot::sum<double>(n_, [=](std::size_t i) { return (mass[i + 1] - mass[i]) * turn[i]; });
    }

    // How many atoms lie before turn (cell + 1) / 256, which the sort has counted on its way.
    std::size_t passed(int cell) const { return counts_[digit_count - 1][cell]; }

    // The level of the cumulative masses there.
    double level_after(int cell) const {
        return masses_.empty() ? static_cast<double>(passed(cell)) / static_cast<double>(n_) : masses_[passed(cell)];
    }

    // The atom at level f in (0, 1] of the cumulative masses: the i with masses[i] < f <= masses[i + 1].
    std::size_t atom_at(double f) const {
        const auto cell = static_cast<std::size_t>(f * cells_);
        const std::size_t first = guide_[cell];
        const double* next = masses_.data() + 1 + first;
        int passed = 2 * (next[1] < f);  // two comparisons find the place among three, without a branch
        passed += next[passed] < f;
        if (passed < window) return first + static_cast<std::size_t>(passed);
        return static_cast<std::size_t>(std::lower_bound(next + window, masses_.data() + 1 + n_, f) - masses_.data()) -
               1;
    }

private:
    static constexpr int key_shift = Grid<T>::bits - sorted_bits;
    static constexpr int window = 3;  // masses past the guide's that are looked at first; seldom are there more

    // guide_[cell] counts the masses below cell / cells, with a power of two of cells so that the product is exact.
    void build_guide() {
        const std::size_t cells = 2 * std::bit_ceil(n_);
        cells_ = static_cast<double>(cells);
        guide_.assign(cells + 2, 0);
        for (std::size_t i = 1; i <= n_; ++i)
            guide_[static_cast<std::size_t>(masses_[i] * cells_) + 1] = static_cast<std::uint32_t>(i);
        std::uint32_t passed = 0;
        for (auto& count : guide_) passed = count = std::max(count, passed);
    }

    std::size_t n_;
    std::vector<Key> keys_, spare_;
    std::vector<T> turns_;
    std::vector<std::uint32_t> places_, words_;
    std::vector<std::uint64_t> tagged_;
    std::vector<double> masses_;
    std::vector<std::uint32_t> guide_;
    double cells_ = 0.0, total_ = 1.0;
    DigitCounts counts_;
};

}  // namespace sphereot
