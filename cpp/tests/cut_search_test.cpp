#include "circle/cut_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "tests/check.hpp"

using namespace sphereot;

namespace {

// A convex, piecewise affine function with integer breakpoints and increasing slopes.
struct Convex {
    std::vector<double> breaks, slopes;  // slopes[i] on [breaks[i], breaks[i + 1]]
    mutable int calls = 0;

    double value(double point) const {
        double total = 0.0;
        for (std::size_t i = 0; i < slopes.size(); ++i)
            total += slopes[i] * (std::min(std::max(point, breaks[i]), breaks[i + 1]) - breaks[i]);
        return total;
    }
    Piece operator()(double k, double, double) const {
        ++calls;
        const auto next = std::upper_bound(breaks.begin(), breaks.end() - 1, k);
        const auto i = static_cast<std::size_t>(next - breaks.begin()) - 1;
        return {breaks[i], breaks[i + 1], slopes[i]};
    }
};

Convex random_function(std::mt19937& random, double low, double high, std::size_t pieces) {
    std::uniform_real_distribution<double> point(low, high), slope(-1.0, 1.0);
    Convex function;
    function.breaks = {low, high};
    for (std::size_t i = 1; i < pieces; ++i) function.breaks.push_back(std::floor(point(random)));
    std::sort(function.breaks.begin(), function.breaks.end());
    function.breaks.erase(std::unique(function.breaks.begin(), function.breaks.end()), function.breaks.end());
    const double offset = slope(random), exponent = 1.0 + 8.0 * std::fabs(slope(random));
    for (std::size_t i = 0; i + 1 < function.breaks.size(); ++i) {
        const double s = slope(random) + offset;
        function.slopes.push_back(std::copysign(std::pow(std::fabs(s), exponent), s));
    }
    std::sort(function.slopes.begin(), function.slopes.end());
    return function;
}

}  // namespace

TEST_CASE("cut search: finds the minimum of convex functions from any start, in few steps") {
    std::mt19937 random(0);
    for (int trial = 0; trial < 3000; ++trial) {
        const double size = std::pow(10.0, 1.0 + trial % 12);
        const Convex function = random_function(random, -size, size, static_cast<std::size_t>(1 + trial % 60));
        const double start = std::uniform_real_distribution<double>(-size, size)(random);
        const double found = least_point(-size, size, {start, 1.0 / size, trial % 3 == 0}, function);
        CHECK(found == std::floor(found) && -size <= found && found <= size);
        // The slopes on both sides have opposite signs, or one of them is zero: exact, where values would round.
        const double before = found > -size ? function(found - 1.0, 0.0, 0.0).slope : -1.0;
        const double after = found < size ? function(found, 0.0, 0.0).slope : 1.0;
        CHECK(before <= 0.0 && after >= 0.0);
        CHECK(function.calls < 120);
    }
}

TEST_CASE("cut search: the value is the least of all breakpoints") {
    std::mt19937 random(1);
    for (int trial = 0; trial < 200; ++trial) {
        const Convex function = random_function(random, -50.0, 50.0, 20);
        const double found = least_point(-50.0, 50.0, {0.0, 1.0, false}, function);
        for (const double point : function.breaks) CHECK(function.value(found) <= function.value(point) + 1e-12);
    }
}

TEST_CASE("cut search: starts and slopes that are not finite end the search all the same") {
    const double infinity = INFINITY;
    const auto step = [=](double k, double, double) {
        return k < 17.0 ? Piece{k, k + 1.0, -infinity} : Piece{k, k + 1.0, infinity};
    };
    CHECK(least_point(-1000.0, 1000.0, {NAN, 1.0, false}, step) == 17.0);
    CHECK(least_point(-1000.0, 1000.0, {infinity, 0.0, true}, step) == 17.0);
}

TEST_CASE("cut search: one-sided functions have their minimum at an end") {
    const auto rising = [](double k, double, double) { return Piece{k, k + 1.0, 1.0 + k * 1e-6}; };
    CHECK(least_point(0.0, 1e6, {5e5, 1e-6, false}, rising) == 0.0);
    const auto falling = [](double k, double, double) { return Piece{k, k + 1.0, k * 1e-6 - 2.0}; };
    CHECK(least_point(0.0, 1e6, {5e5, 1e-6, false}, falling) == 1e6);
}

TEST_CASE("cut search: a piece without slope ends the search at the piece, wherever it was asked for") {
    const auto jump = [](double k, double, double) { return k < 10.0 ? Piece{k, 10.0, -1.0} : Piece{42.0, 42.0, 0.0}; };
    CHECK(least_point(-1000.0, 1000.0, {0.0, 0.1, false}, jump) == 42.0);
}
