// The sorted atoms of one measure on one circle.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "circle/grid.hpp"
#include "circle/partition.hpp"
#include "circle/radix_sort.hpp"
#include "support/real.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Cumulative masses are multiples of 2^-52, the spacing of doubles just above 1: their sums and differences are exact,
// and a mass too small to matter is 0 instead of a number whose inverse overflows.
inline constexpr double mass_units = 0x1p52;

// Rounds a mass in [0, 1] to a multiple of 1 / mass_units.
inline double whole_units(double mass) { return (1.0 + mass) - 1.0; }

// Sorted atoms and, where they are needed, the cumulative sums of their masses. It owns its memory, which is reused for
// every slice: one object per measure and thread.
//
// Order of the calls for a slice: begin_keys, count, then sort (equal weights) or sort_with_indices, then set_masses
// (weights) or set_equal_masses (equal weights, where masses are needed).
template <Real T>
class Atoms {
public:
    using Key = typename Grid<T>::Key;

    explicit Atoms(std::size_t n) : n_(n), keys_(n), spare_(n), turns_(n + 1 + partition_slack) {}

    std::size_t size() const { return n_; }

    // Starts a new slice: returns the array where its n keys are to be written. Each key must be passed to `count`
    // once.
    Key* begin_keys() {
        counts_.clear();
        return keys_.data();
    }
    void count(const Key* keys, std::size_t n) { counts_.template add<key_shift>(keys, n); }

    // Sorts the atoms. Use it for equal weights, where the input indices are not needed.
    void sort() {
        Key* sorted = sort_leading_bits<key_shift>(keys_.data(), spare_.data(), n_, counts_);
        if constexpr (key_shift > 0)
            sort_tied_runs(sorted, n_, [](Key key) { return key >> key_shift; }, std::less<>{});
        for (std::size_t i = 0; i < n_; ++i) turns_[i] = Grid<T>::turn(sorted[i]);
        turns_[n_] = turns_[0] + T(1);
    }

    // Sorts the atoms and stores the input index of each.
    void sort_with_indices() {
        source_indices_.resize(n_);
        if (n_ <= max_short_indices) {
            words_.resize(2 * n_);
            const auto* sorted =
                sort_short_indices<key_shift>(keys_.data(), words_.data(), words_.data() + n_, n_, counts_);
            for (std::size_t i = 0; i < n_; ++i) source_indices_[i] = short_index(sorted[i]);
        } else {
            tagged_.resize(2 * n_);
            for (std::size_t i = 0; i < n_; ++i) tagged_[i] = (std::uint64_t{keys_[i] >> key_shift} << index_bits) | i;
            const auto* sorted = sort_leading_bits<index_bits>(tagged_.data(), tagged_.data() + n_, n_, counts_);
            for (std::size_t i = 0; i < n_; ++i) source_indices_[i] = static_cast<std::uint32_t>(sorted[i]);
        }
        if constexpr (key_shift > 0)
            sort_tied_runs(
                source_indices_.data(), n_, [&](std::uint32_t index) { return keys_[index] >> key_shift; },
                [&](std::uint32_t one, std::uint32_t other) { return keys_[one] < keys_[other]; });
        for (std::size_t i = 0; i < n_; ++i) turns_[i] = Grid<T>::turn(keys_[source_indices_[i]]);
        turns_[n_] = turns_[0] + T(1);
    }

    // The input index of the i-th sorted atom. Requires sort_with_indices.
    std::uint32_t source_index(std::size_t i) const { return source_indices_[i]; }

    // Sets cumulative masses from n weights in input order, scaled to a total of 1. Requires sort_with_indices.
    void set_masses(const double* weights) {
        masses_.resize(n_ + 1);
        // Dividing by the largest weight keeps the sum of extreme weights in range; a power of two does not round.
        double largest = weights[0];
#pragma omp simd reduction(max : largest)
        for (std::size_t i = 0; i < n_; ++i) largest = std::max(largest, weights[i]);
        const int exponent = std::clamp(std::ilogb(largest), -max_exponent, max_exponent);
        const double scale = std::ldexp(1.0, -exponent);
        const std::uint32_t* source = source_indices_.data();
        double* sum = masses_.data();
        double total = 0.0;
        sum[0] = 0.0;
        // Sums of four do not wait for the total of those before.
        std::size_t i = 0;
        for (; i + 4 <= n_; i += 4) {
            const double first = scale * weights[source[i]], second = first + scale * weights[source[i + 1]];
            const double third = scale * weights[source[i + 2]], fourth = third + scale * weights[source[i + 3]];
            sum[i + 1] = total + first;
            sum[i + 2] = total + second;
            sum[i + 3] = total + (second + third);
            total += second + fourth;
            sum[i + 4] = total;
        }
        for (; i < n_; ++i) sum[i + 1] = total += scale * weights[source[i]];
        for (std::size_t k = 1; k <= n_; ++k) sum[k] = whole_units(sum[k] / total);
        total_ = std::ldexp(total, exponent);
    }

    // Sets cumulative masses of equal weights, for comparison with a measure of another size or with weights. They do
    // not depend on the slice: the first call sets them, later ones, and calls after set_masses, do nothing.
    void set_equal_masses() {
        if (has_masses()) return;
        masses_.resize(n_ + 1);
        for (std::size_t i = 0; i <= n_; ++i)
            masses_[i] = whole_units(static_cast<double>(i) / static_cast<double>(n_));
    }

    // The sum of the weights that set_masses was given.
    double total_weight() const { return total_; }

    // For turns that are in order already: returns the array to write them to, with `partition_slack` elements to
    // spare. Call end_sorted when they are written.
    T* begin_sorted() { return turns_.data(); }
    void end_sorted() { turns_[n_] = turns_[0] + T(1); }
    // Sets `passed(cell)` of such turns, for those who ask for it.
    void set_passed(int cell, std::size_t atoms) {
        counts_[digit_count - 1][static_cast<std::size_t>(cell)] = static_cast<std::uint32_t>(atoms);
    }

    // Takes any number n of sorted atoms, with n + 1 cumulative masses from 0 to 1 in units of 1 / mass_units. Requires
    // n > 0.
    void set_sorted(std::span<const T> turns, std::span<const double> masses) {
        n_ = turns.size();
        turns_.resize(std::max(turns_.size(), n_ + 1 + partition_slack));
        std::copy(turns.begin(), turns.end(), turns_.begin());
        turns_[n_] = turns_[0] + T(1);
        masses_.assign(masses.begin(), masses.end());
        auto& passed_counts = counts_[digit_count - 1];
        std::size_t passed_atoms = 0;
        for (std::size_t cell = 0; cell < digit_values; ++cell) {
            const T end = static_cast<T>(cell + 1) / static_cast<T>(digit_values);
            while (passed_atoms < n_ && turns_[passed_atoms] < end) ++passed_atoms;
            passed_counts[cell] = static_cast<std::uint32_t>(passed_atoms);
        }
    }

    // n + 1 sorted turns: the last is the first plus 1.
    std::span<const T> turns() const { return {turns_.data(), n_ + 1}; }
    // n + 1 cumulative masses from 0 to 1.
    std::span<const double> masses() const { return {masses_.data(), n_ + 1}; }

    bool has_masses() const { return !masses_.empty(); }

    // The mean turn: the integral of the quantile function.
    double mean() const {
        const T* turn = turns_.data();
        const double* mass = masses_.data();
        if (!has_masses())
            return sphereot::sum<T>(n_, [=](std::size_t i) { return turn[i]; }) / static_cast<double>(n_);
        return sphereot::sum<double>(n_, [=](std::size_t i) { return (mass[i + 1] - mass[i]) * turn[i]; });
    }

    // How many atoms lie before turn (cell + 1) / digit_values; a by-product of the sort.
    std::size_t passed(int cell) const { return counts_[digit_count - 1][cell]; }

    // The cumulative mass there.
    double level_after(int cell) const {
        return !has_masses() ? static_cast<double>(passed(cell)) / static_cast<double>(n_) : masses_[passed(cell)];
    }

private:
    static constexpr int key_shift = Grid<T>::bits - sorted_bits;
    static constexpr int index_bits = 32;
    static constexpr int max_exponent = 1000;  // of the scale of weights: its powers of two are normal numbers

    std::size_t n_;
    std::vector<Key> keys_, spare_;
    std::vector<T> turns_;
    std::vector<std::uint32_t> source_indices_, words_;
    std::vector<std::uint64_t> tagged_;
    std::vector<double> masses_;
    double total_ = 1.0;
    DigitCounts counts_;
};

}  // namespace sphereot
