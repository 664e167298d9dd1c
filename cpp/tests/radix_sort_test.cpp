#include "circle/radix_sort.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "circle/atoms.hpp"
#include "circle/grid.hpp"
#include "tests/check.hpp"

using namespace sphereot;

namespace {

constexpr std::uint32_t key_mask = (1u << sorted_bits) - 1;

// Keys with many ties, with all digits shared, and spread over all bits.
std::vector<std::vector<std::uint32_t>> key_sets() {
    std::mt19937 random(0);
    std::vector<std::vector<std::uint32_t>> sets;
    for (const std::size_t n : {1u, 2u, 3u, 255u, 256u, 257u, 5000u, 65536u, 70000u})
        for (const std::uint32_t mask : {key_mask, 3u, 0xFF0000u, 0x00FF00u, 0u}) {
            std::vector<std::uint32_t> keys(n);
            for (auto& key : keys) key = static_cast<std::uint32_t>(random()) & mask;
            sets.push_back(keys);
        }
    return sets;
}

}  // namespace

TEST_CASE("radix sort: sorts keys and counts those of each leading digit") {
    for (auto keys : key_sets()) {
        auto expected = keys;
        std::sort(expected.begin(), expected.end());
        std::vector<std::uint32_t> spare(keys.size());
        DigitCounts counts;
        counts.clear();
        counts.add<0>(keys.data(), keys.size());
        const std::uint32_t* sorted = sort_leading_bits<0>(keys.data(), spare.data(), keys.size(), counts);
        CHECK(std::equal(expected.begin(), expected.end(), sorted));
        for (std::uint32_t c = 0; c < digit_values; ++c) {
            const auto end = std::upper_bound(expected.begin(), expected.end(), (c << 16) | 0xFFFFu);
            CHECK(counts[2][c] == static_cast<std::size_t>(end - expected.begin()));
        }
    }
}

TEST_CASE("radix sort: stable for elements with bits below the key") {
    for (const auto& keys : key_sets()) {
        std::vector<std::uint64_t> elements(keys.size()), spare(keys.size());
        for (std::size_t i = 0; i < keys.size(); ++i) elements[i] = (std::uint64_t{keys[i]} << 32) | i;
        auto expected = elements;
        std::sort(expected.begin(), expected.end());
        DigitCounts counts;
        counts.clear();
        counts.add<32>(elements.data(), elements.size());
        const auto* sorted = sort_leading_bits<32>(elements.data(), spare.data(), elements.size(), counts);
        CHECK(std::equal(expected.begin(), expected.end(), sorted));
    }
}

TEST_CASE("radix sort: short indices are those of a stable sort") {
    for (const auto& keys : key_sets()) {
        const std::size_t n = keys.size();
        if (n > max_short_indices) continue;
        std::vector<std::uint32_t> expected(n), words(n), spare(n);
        std::iota(expected.begin(), expected.end(), 0u);
        std::stable_sort(expected.begin(), expected.end(), [&](auto i, auto j) { return keys[i] < keys[j]; });
        DigitCounts counts;
        counts.clear();
        counts.add<0>(keys.data(), n);
        const auto* sorted = sort_short_indices<0>(keys.data(), words.data(), spare.data(), n, counts);
        for (std::size_t i = 0; i < n; ++i) CHECK(short_index(sorted[i]) == expected[i]);
    }
}

TEST_CASE("radix sort: tied runs are completed") {
    std::vector<std::uint32_t> elements = {0x105, 0x101, 0x103, 0x204, 0x300, 0x302, 0x301};
    auto expected = elements;
    std::sort(expected.begin(), expected.end());
    sort_tied_runs(elements.data(), elements.size(), [](std::uint32_t e) { return e >> 8; }, std::less<>{});
    CHECK(elements == expected);
}

TEST_CASE("atoms: double keys that agree in their leading bits are sorted to the last bit, with their indices") {
    std::mt19937_64 random(1);
    for (const std::size_t n : {5u, 3000u, 70000u}) {
        std::vector<double> turns(n);
        for (auto& turn : turns) turn = 0.5 + 0x1p-40 * static_cast<double>(random() % 1024);
        Atoms<double> atoms(n);
        auto* keys = atoms.begin_keys();
        for (std::size_t i = 0; i < n; ++i) keys[i] = Grid<double>::key(turns[i]);
        atoms.count(keys, n);
        atoms.sort_with_indices();
        for (std::size_t i = 0; i < n; ++i) CHECK(atoms.turns()[i] == turns[atoms.source_index(i)]);
        CHECK(std::is_sorted(atoms.turns().begin(), atoms.turns().end()));
        CHECK(atoms.turns()[n] == atoms.turns()[0] + 1.0);
    }
}
