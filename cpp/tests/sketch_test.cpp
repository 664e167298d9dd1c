#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "sketch/bin_counts.hpp"
#include "sketch/histogram.hpp"
#include "sketch/integer_turns.hpp"
#include "sketch/level_distance.hpp"
#include "sketch/transport.hpp"
#include "tests/check.hpp"

using namespace sphereot;

namespace {

std::vector<float> unit_points(std::mt19937& random, std::size_t n, std::size_t dim) {
    std::normal_distribution<double> normal;
    std::vector<float> points(n * dim);
    for (std::size_t i = 0; i < n; ++i) {
        std::vector<double> x(dim);
        double square = 0.0;
        for (auto& value : x) value = normal(random), square += value * value;
        for (std::size_t k = 0; k < dim; ++k) points[i * dim + k] = static_cast<float>(x[k] / std::sqrt(square));
    }
    return points;
}

// Frames whose axes are two random vectors, not orthogonal, on the grid of frames.
std::vector<double> grid_frames(std::mt19937& random, std::size_t slices, std::size_t dim) {
    std::normal_distribution<double> normal;
    std::vector<double> frames(slices * dim * 2);
    for (auto& value : frames)
        value = std::round(0.7 * normal(random) / std::sqrt(static_cast<double>(dim)) * 0x1p23) * 0x1p-23;
    return frames;
}

struct Counts {
    std::size_t slices, bins, limbs;
    std::vector<std::uint64_t> mass, moment, near;

    Counts(std::size_t slices_, std::size_t bins_, std::size_t limbs_)
        : slices(slices_),
          bins(bins_),
          limbs(limbs_),
          mass(limbs_ * slices_ * bins_),
          moment(mass.size()),
          near(limbs_ * slices_ * near_count) {}

    BinCounts view() { return {slices, bins, mass.data(), moment.data(), near.data()}; }
    bool operator==(const Counts&) const = default;
};

constexpr NearSquares near_squares{0.01f, 0.001f, 0.0001f};

}  // namespace

TEST_CASE("sketch: integer turns have the stated error") {
    std::mt19937_64 random(0);
    std::uniform_real_distribution<double> uniform;
    double worst = 0.0;
    for (int round = 0; round < 2000; ++round) {
        double x[100], y[100], angle[100];
        std::uint32_t turns[100];
        float squares[100];
        for (int i = 0; i < 100; ++i) {
            angle[i] = uniform(random);
            const double length = std::exp(-8.0 * uniform(random));
            x[i] = length * std::cos(2.0 * std::numbers::pi * angle[i]);
            y[i] = length * std::sin(2.0 * std::numbers::pi * angle[i]);
        }
        integer_turns(x, y, 100, turns, squares);
        for (int i = 0; i < 100; ++i) {
            const double gap = std::fabs(turns[i] * 0x1p-31 - angle[i]);
            worst = std::max(worst, std::min(gap, 1.0 - gap));
            CHECK(turns[i] < std::uint32_t{1} << turn_bits);
        }
    }
    CHECK(worst < 0x1p-25);
    const double zero[1] = {0.0}, one[1] = {1.0}, tiny[1] = {-0x1p-52};
    std::uint32_t turn[1];
    float square[1];
    integer_turns(zero, zero, 1, turn, square);
    CHECK(turn[0] == 0 && square[0] == 0.0f);
    integer_turns(one, tiny, 1, turn, square);
    CHECK(turn[0] == 0);
}

TEST_CASE("sketch: counts do not depend on the threads or on the division of the points") {
    std::mt19937 random(1);
    const std::size_t n = 3000, slices = 7, bins = 300;
    for (const std::size_t dim : {2, 3, 8, 9, 130}) {
        const auto points = unit_points(random, n, dim);
        const auto frames = grid_frames(random, slices, dim);
        std::vector<std::uint64_t> high(n), low(n);
        for (std::size_t i = 0; i < n; ++i) high[i] = random(), low[i] = (std::uint64_t{random()} << 16) | 7;
        for (const bool weighted : {false, true}) {
            const auto count = [&](std::size_t begin, std::size_t end, std::size_t threads, Counts& out) {
                const CountedPoints<float> part{end - begin, dim, points.data() + begin * dim,
                                                weighted ? high.data() + begin : nullptr,
                                                weighted ? low.data() + begin : nullptr};
                count_points(part, frames.data(), near_squares, out.view(), {threads});
            };
            const std::size_t limbs = weighted ? 2 : 1;
            Counts whole(slices, bins, limbs), parts(slices, bins, limbs);
            count(0, n, 1, whole);
            for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 700}, {700, n}})
                count(begin, end, 3, parts);
            CHECK(whole == parts);
            if (weighted) continue;
            for (std::size_t l = 0; l < slices; ++l) {
                std::uint64_t total = 0;
                for (std::size_t j = 0; j < bins; ++j) total += whole.mass[l * bins + j];
                CHECK(total == n);
            }
        }
    }
}

TEST_CASE("sketch: the median is an element with as many below as above") {
    std::mt19937 random(2);
    std::normal_distribution<double> normal;
    std::vector<double> scratch;
    for (std::size_t n = 1; n < 400; n += 7)
        for (int kind = 0; kind < 3; ++kind) {
            std::vector<double> values(n);
            for (auto& value : values) {
                value = normal(random);
                if (kind == 1) value = std::floor(value);
                if (kind == 2) value = std::exp(20.0 * value);
            }
            const double median = median_of(values.data(), n, scratch);
            std::sort(values.begin(), values.end());
            CHECK(median == values[n / 2]);
        }
    const std::vector<double> equal(50, 0.25);
    CHECK(median_of(equal.data(), 50, scratch) == 0.25);
}

TEST_CASE("sketch: distances of point masses") {
    const std::size_t bins = 8;
    std::vector<std::uint64_t> x(bins), y(bins), x_offsets(bins), y_offsets(bins);
    x[1] = 1, x_offsets[1] = 1 << 15;  // at 1.5 / 8
    y[6] = 3, y_offsets[6] = 3 << 15;  // at 6.5 / 8, three eighths of a turn away
    const Histogram a{1, bins, x.data(), x_offsets.data(), nullptr, nullptr};
    const Histogram b{1, bins, y.data(), y_offsets.data(), nullptr, nullptr};
    double cost, excess, x_moved, y_moved, ranges;
    level_distances({a, b}, {1}, &cost, &excess);
    CHECK(std::fabs(cost - 0.375) < 1e-12 && excess >= 0.0);
    transport_distances(a, &b, 2.0, {1}, {&cost, &x_moved, &y_moved, &ranges});
    CHECK(std::fabs(cost - 0.375 * 0.375) < 1e-12);
    CHECK(x_moved == 0.0 && std::fabs(y_moved - 0.25) < 1e-4);  // a single point does not move
    // From one lap of the only partner to the next, or the one after it where levels meet.
    CHECK(ranges > 0.25 - 1e-4 && ranges < 0.5 + 1e-4);
    transport_distances(a, nullptr, 2.0, {1}, {&cost, &x_moved, nullptr, &ranges});
    CHECK(std::fabs(cost - 1.0 / 12.0) < 1e-12);
}
