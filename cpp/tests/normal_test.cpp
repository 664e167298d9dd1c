#include "slicing/normal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "slicing/frames.hpp"
#include "tests/check.hpp"

using namespace sphereot;

TEST_CASE("normal numbers: SplitMix64 gives the reference output") {
    // The first outputs of the authors' splitmix64.c for the state 1234567.
    constexpr std::array<std::uint64_t, 5> expected = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                                       4593380528125082431u, 16408922859458223821u};
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(random_bits(1234567, i) == expected[i]);
}

TEST_CASE("normal numbers: error of the logarithm") {
    for (double x = 1e-9; x < 2.0; x *= 1.00003) {
        const auto single = static_cast<float>(x);
        const double exact = std::log(static_cast<double>(single));
        CHECK(std::fabs(static_cast<double>(fast_log(single)) - exact) <= 1.5e-7 * std::fabs(exact) + 1e-7);
    }
    CHECK(fast_log(1.0f) == 0.0f);
}

TEST_CASE("normal numbers: moments, independence and distribution") {
    constexpr int n = 1 << 20;
    double mean = 0.0, square = 0.0, fourth = 0.0, product = 0.0, lag = 0.0, before = 0.0;
    std::vector<float> values;
    values.reserve(2 * n);
    for (int i = 0; i < n; ++i) {
        const NormalPair pair(42, static_cast<std::uint64_t>(i));
        CHECK(std::isfinite(pair.first) && std::isfinite(pair.second));
        product += static_cast<double>(pair.first) * static_cast<double>(pair.second);
        lag += before * static_cast<double>(pair.first);
        before = static_cast<double>(pair.first);
        for (const double value : {pair.first, pair.second}) {
            mean += value;
            square += value * value;
            fourth += value * value * value * value;
        }
        values.push_back(pair.first);
        values.push_back(pair.second);
    }
    // Five standard errors: those of the mean, of x^2 (variance 2), x^4 (96) and x y (1).
    const double count = 2.0 * n;
    CHECK(std::fabs(mean / count) < 5.0 / std::sqrt(count));
    CHECK(std::fabs(square / count - 1.0) < 5.0 * std::sqrt(2.0 / count));
    CHECK(std::fabs(fourth / count - 3.0) < 5.0 * std::sqrt(96.0 / count));
    CHECK(std::fabs(product / n) < 5.0 / std::sqrt(n));
    CHECK(std::fabs(lag / n) < 5.0 / std::sqrt(n));
    // Kolmogorov-Smirnov: sqrt(n) D exceeds 2.2 with probability 1.3e-4.
    std::sort(values.begin(), values.end());
    double gap = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double level = 0.5 * std::erfc(-static_cast<double>(values[i]) / std::numbers::sqrt2);
        gap = std::max({gap, std::fabs(level - static_cast<double>(i) / count),
                        std::fabs(level - static_cast<double>(i + 1) / count)});
    }
    CHECK(std::sqrt(count) * gap < 2.2);
}

TEST_CASE("frames: drawn planes are orthonormal and do not depend on the first of the stream") {
    for (const std::size_t dim : {2u, 3u, 17u, 128u, 1025u}) {
        std::vector<float> rows(2 * dim), again(2 * dim);
        for (std::size_t plane = 0; plane < 50; ++plane) {
            RandomPlanes{7, 0}.draw(plane, dim, rows.data());
            RandomPlanes{7, plane}.draw(0, dim, again.data());
            CHECK(rows == again);
            double first = 0.0, second = 0.0, dot = 0.0;
            for (std::size_t k = 0; k < dim; ++k) {
                const double u = rows[k], v = rows[dim + k];
                first += u * u;
                second += v * v;
                dot += u * v;
            }
            CHECK(std::fabs(first - 1.0) < 1e-6 && std::fabs(second - 1.0) < 1e-6 && std::fabs(dot) < 1e-6);
        }
    }
}

TEST_CASE("frames: nearly parallel vectors become orthonormal all the same") {
    double first[3] = {1.0, 2.0, 3.0}, second[3] = {1.0, 2.0, 3.0 + 1e-5};
    orthonormalize(first, second, 3);
    const double dot = first[0] * second[0] + first[1] * second[1] + first[2] * second[2];
    CHECK(std::fabs(dot) < 1e-15);
}
