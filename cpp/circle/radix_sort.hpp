// Least-significant-digit radix sort of 24-bit keys in three passes of eight bits. Its time does not depend on the
// data.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace sphereot {

inline constexpr int digit_bits = 8, digit_count = 3, sorted_bits = digit_bits * digit_count;
inline constexpr std::size_t digit_values = std::size_t{1} << digit_bits;

// The lowest digit of `bits`.
inline std::uint32_t low_digit(std::uint32_t bits) { return bits & (digit_values - 1); }

// How many elements have each value of one digit; within a pass, where the next element with that value goes.
using DigitHistogram = std::array<std::uint32_t, digit_values>;

// A histogram for each of the three digits.
class DigitCounts {
public:
    void clear() { std::memset(counts_.data(), 0, sizeof(counts_)); }

    // Counts the digits above bit `shift` of n elements.
    template <int shift, std::unsigned_integral Element>
    void add(const Element* elements, std::size_t n) {
        static_assert(digit_count == 3);
        for (std::size_t i = 0; i < n; ++i) {
            const auto leading = static_cast<std::uint32_t>(elements[i] >> shift);
            ++counts_[0][low_digit(leading)];
            ++counts_[1][low_digit(leading >> digit_bits)];
            ++counts_[2][low_digit(leading >> (2 * digit_bits))];
        }
    }

    DigitHistogram& operator[](int digit) { return counts_[static_cast<std::size_t>(digit)]; }
    const DigitHistogram& operator[](int digit) const { return counts_[static_cast<std::size_t>(digit)]; }

private:
    std::array<DigitHistogram, digit_count> counts_;
};

// Replaces counts by the indices where the elements with each digit begin. Returns whether all n elements have the
// digit `shared`; then `next` is left as a pass over the elements would leave it.
inline bool begin_pass(DigitHistogram& next, std::uint32_t shared, std::size_t n) {
    const bool all_share = next[shared] == n;
    std::uint32_t start = 0;
    for (auto& count : next) start += std::exchange(count, start);
    if (all_share) next[shared] = static_cast<std::uint32_t>(n);
    return all_share;
}

// One stable pass from `elements` to `spare` by the digit above bit `shift`. Returns whether it was made: where all
// elements share the digit it would only copy, one dependent store after another. Requires n > 0.
template <std::unsigned_integral Element>
bool sort_by_digit(const Element* elements, Element* spare, std::size_t n, DigitHistogram& next, int shift) {
    const auto digit = [shift](Element element) { return low_digit(static_cast<std::uint32_t>(element >> shift)); };
    if (begin_pass(next, digit(elements[0]), n)) return false;
    for (std::size_t i = 0; i < n; ++i) {
        const Element element = elements[i];
        spare[next[digit(element)]++] = element;
    }
    return true;
}

// Stable sort by the 24 bits above `shift`, whose digits `counts` has counted. Both arrays are overwritten; returns the
// one that holds the result. Leaves in counts[2][c] how many elements have a most significant digit of at most c.
// Requires n > 0.
template <int shift, std::unsigned_integral Element>
Element* sort_leading_bits(Element* elements, Element* spare, std::size_t n, DigitCounts& counts) {
    for (int digit = 0; digit < digit_count; ++digit)
        if (sort_by_digit(elements, spare, n, counts[digit], shift + digit * digit_bits)) std::swap(elements, spare);
    return elements;
}

inline constexpr int short_index_bits = 16;
inline constexpr std::size_t max_short_indices = std::size_t{1} << short_index_bits;

// The index in a word of `sort_short_indices`.
inline std::uint32_t short_index(std::uint32_t word) { return word & (max_short_indices - 1); }

// The same sort for the indices of at most 2^16 keys; the keys stay where they are. A word holds an index in its lower
// half and in its upper half the two digits of the key that later passes sort by: `short_index` gives the index.
template <int shift, std::unsigned_integral Key>
std::uint32_t* sort_short_indices(const Key* keys, std::uint32_t* words, std::uint32_t* spare, std::size_t n,
                                  DigitCounts& counts) {
    auto& next = counts[0];
    const auto leading = [=](std::size_t i) { return static_cast<std::uint32_t>(keys[i] >> shift); };
    const auto word = [](std::uint32_t bits, std::size_t i) {
        return (bits >> digit_bits) << short_index_bits | static_cast<std::uint32_t>(i);
    };
    if (begin_pass(next, low_digit(leading(0)), n)) {
        for (std::size_t i = 0; i < n; ++i) words[i] = word(leading(i), i);
    } else {
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t bits = leading(i);
            words[next[low_digit(bits)]++] = word(bits, i);
        }
    }
    for (int digit = 1; digit < digit_count; ++digit)
        if (sort_by_digit(words, spare, n, counts[digit], short_index_bits + (digit - 1) * digit_bits))
            std::swap(words, spare);
    return words;
}

// Completes a sort by leading bits: sorts each run of elements with equal leading(element) by `less`.
template <std::unsigned_integral Element, std::invocable<Element> Leading,
          std::strict_weak_order<Element, Element> Less>
void sort_tied_runs(Element* elements, std::size_t n, Leading leading, Less less) {
    for (std::size_t begin = 0; begin + 1 < n;) {
        std::size_t end = begin + 1;
        while (end < n && leading(elements[end]) == leading(elements[begin])) ++end;
        if (end - begin > 1) std::sort(elements + begin, elements + end, less);
        begin = end;
    }
}

}  // namespace sphereot
