#include "circle/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/check.hpp"

using namespace sphereot;

namespace {

template <Real T>
void check_partition(std::size_t n, unsigned b) {
    std::mt19937 random(static_cast<unsigned>(n));
    std::vector<T> values(n), expected_set, expected_unset;
    std::vector<std::uint8_t> labels(n);
    for (std::size_t i = 0; i < n; ++i) {
        values[i] = static_cast<T>(i);
        labels[i] = static_cast<std::uint8_t>(random());
        ((labels[i] >> b) & 1u ? expected_set : expected_unset).push_back(values[i]);
    }
    std::vector<T> set(expected_set.size() + partition_slack), unset(expected_unset.size() + partition_slack);
    partition_by_label(values.data(), labels.data(), b, n, set.data(), unset.data());
    CHECK(std::equal(expected_set.begin(), expected_set.end(), set.begin()));
    CHECK(std::equal(expected_unset.begin(), expected_unset.end(), unset.begin()));
}

}  // namespace

TEST_CASE("partition: values keep their order on both sides, for each bit") {
    for (const std::size_t n : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 100u, 1000u})
        for (unsigned b = 0; b < 8; ++b) {
            check_partition<float>(n, b);
            check_partition<double>(n, b);
        }
}
