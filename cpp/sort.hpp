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

// Stable sort by the 24 bits above `shift`. Uses both arrays; returns the one that holds the result. What is left in
// counts[2][c] is how many elements have a first digit of at most c.
template <int shift, class Element>
Element* sort_leading_bits(Element* elements, Element* spare, std::size_t n, DigitCounts& counts) {
    for (int digit = 0; digit < digit_count; ++digit) {
        auto& next = counts[digit];
        const int down = shift + digit * digit_bits;
        const auto shared = (elements[0] >> down) & 255u;
        const bool all_share = next[shared] == n;
        std::uint32_t start = 0;
        for (auto& count : next) start += std::exchange(count, start);
        if (all_share) {  // the pass would only copy, one dependent store after another
            next[shared] = static_cast<std::uint32_t>(n);
            continue;
        }
        for (std::size_t i = 0; i < n; ++i) {
            const Element element = elements[i];
            spare[next[(element >> down) & 255u]++] = element;
        }
        std::swap(elements, spare);
    }
    return elements;
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
