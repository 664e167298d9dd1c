// Sorting keys by counting: three passes of eight bits, whose time does not depend on where the points lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace sphereot {

inline constexpr int digit_bits = 8, digit_count = 3, sorted_bits = digit_bits * digit_count;

class DigitCounts {
public:
    void clear() { std::memset(counts_.data(), 0, sizeof(counts_)); }

    template <int shift, class Element>
    void add(const Element* elements, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            const auto leading = static_cast<std::uint32_t>(elements[i] >> shift);
            ++counts_[0][leading & 255u];
            ++counts_[1][(leading >> 8) & 255u];
            ++counts_[2][(leading >> 16) & 255u];
        }
    }

    std::array<std::uint32_t, 256>& operator[](int digit) { return counts_[digit]; }
    const std::array<std::uint32_t, 256>& operator[](int digit) const { return counts_[digit]; }

private:
    std::array<std::array<std::uint32_t, 256>, digit_count> counts_;
};

// Turns counts into the places where elements with each digit begin; returns whether all n share the digit `shared`.
inline bool begin_pass(std::array<std::uint32_t, 256>& next, std::uint32_t shared, std::size_t n) {
    const bool all_share = next[shared] == n;
    std::uint32_t start = 0;
    for (auto& count : next) start += std::exchange(count, start);
    if (all_share) next[shared] = static_cast<std::uint32_t>(n);  // where a pass would leave it
    return all_share;
}

// One pass by the digit above bit `down`; returns whether the result is in `spare`. Where all elements share the digit
// it would only copy, one dependent store after another.
template <class Element>
bool sort_by_digit(const Element* elements, Element* spare, std::size_t n, std::array<std::uint32_t, 256>& next,
                   int down) {
    if (begin_pass(next, static_cast<std::uint32_t>(elements[0] >> down) & 255u, n)) return false;
    for (std::size_t i = 0; i < n; ++i) {
        const Element element = elements[i];
        spare[next[(element >> down) & 255u]++] = element;
    }
    return true;
}

// Stable sort by the 24 bits above `shift`. Uses both arrays; returns the one that holds the result. What is left in
// counts[2][c] is how many elements have a first digit of at most c.
template <int shift, class Element>
Element* sort_leading_bits(Element* elements, Element* spare, std::size_t n, DigitCounts& counts) {
    for (int digit = 0; digit < digit_count; ++digit)
        if (sort_by_digit(elements, spare, n, counts[digit], shift + digit * digit_bits)) std::swap(elements, spare);
    return elements;
}

inline constexpr std::size_t most_short_places = 1u << 16;

// The same for the places of at most 2^16 keys, which are not moved: a word holds a place in its lower half, and in its
// upper half the bits of the key that passes are still to sort by.
template <int shift, class Key>
std::uint32_t* sort_short_places(const Key* keys, std::uint32_t* words, std::uint32_t* spare, std::size_t n,
                                 DigitCounts& counts) {
    auto& next = counts[0];
    const auto leading = [=](std::size_t i) { return static_cast<std::uint32_t>(keys[i] >> shift); };
    const auto word = [](std::uint32_t bits, std::size_t i) {
        return (bits >> digit_bits) << 16 | static_cast<std::uint32_t>(i);
    };
    if (begin_pass(next, leading(0) & 255u, n)) {
        for (std::size_t i = 0; i < n; ++i) words[i] = word(leading(i), i);
    } else {
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint32_t bits = leading(i);
            words[next[bits & 255u]++] = word(bits, i);
        }
    }
    for (int digit = 1; digit < digit_count; ++digit)
        if (sort_by_digit(words, spare, n, counts[digit], 16 + (digit - 1) * digit_bits)) std::swap(words, spare);
    return words;
}

// Completes a sort by leading bits: orders each run that those bits left tied.
template <class Element, class Leading, class Less>
void sort_tied_runs(Element* elements, std::size_t n, Leading leading, Less less) {
    for (std::size_t begin = 0; begin + 1 < n;) {
        std::size_t end = begin + 1;
        while (end < n && leading(elements[end]) == leading(elements[begin])) ++end;
        if (end - begin > 1) std::sort(elements + begin, elements + end, less);
        begin = end;
    }
}

}  // namespace sphereot
