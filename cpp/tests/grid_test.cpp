#include "circle/grid.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <random>

#include "tests/check.hpp"

using namespace sphereot;

namespace {

// Distance on the circle.
long double distance(long double a, long double b) {
    const long double gap = std::fabs(a - b);
    return std::min(gap, 1.0L - gap);
}

template <Real T>
long double max_angle_error(int points) {
    std::mt19937_64 random(0);
    std::uniform_real_distribution<double> size(-10.0, 10.0);
    long double worst = 0.0L;
    for (int i = 0; i < points; ++i) {
        const long double angle = 2.0L * std::numbers::pi_v<long double> * i / points;
        const long double length = std::exp(static_cast<long double>(size(random)));
        const T first = static_cast<T>(length * std::cos(angle)), second = static_cast<T>(length * std::sin(angle));
        const T turn = planar_turn(first, second);
        CHECK(turn >= T(0) && turn <= T(1));
        const long double exact = std::atan2(static_cast<long double>(second), static_cast<long double>(first)) /
                                  (2.0L * std::numbers::pi_v<long double>);
        worst = std::max(worst, distance(turn, exact < 0.0L ? exact + 1.0L : exact));
    }
    return worst;
}

}  // namespace

TEST_CASE("angle: the error of planar_turn is that its comment claims") {
    CHECK(max_angle_error<float>(400000) < 7e-8L);
    CHECK(max_angle_error<double>(400000) < 1.2e-16L);
}

TEST_CASE("angle: axes, diagonals and the zero vector") {
    CHECK(planar_turn(1.0, 0.0) == 0.0 && planar_turn(0.0, 1.0) == 0.25);
    CHECK(planar_turn(-1.0, 0.0) == 0.5 && planar_turn(0.0, -1.0) == 0.75);
    CHECK(planar_turn(1.0, 1.0) == 0.125 && planar_turn(-3.0, -3.0) == 0.625);
    CHECK(planar_turn(0.0f, 0.0f) == 0.0f && planar_turn(-0.0, 0.0) == 0.0);
    CHECK(planar_turn(1.0, -1e-300) == 1.0);
    CHECK(Grid<double>::key(planar_turn(1.0, -1e-300)) == 0 && Grid<float>::key(planar_turn(1.0f, -1e-30f)) == 0);
    CHECK(planar_turn(std::numeric_limits<float>::max(), std::numeric_limits<float>::max()) == planar_turn(1.0f, 1.0f));
}

TEST_CASE("grid: keys of grid points are exact, and others are rounded to the nearest") {
    for (std::uint32_t key = 0; key <= Grid<float>::mask; key += 4099)
        CHECK(Grid<float>::key(Grid<float>::turn(key)) == key);
    CHECK(Grid<float>::key(1.0f) == 0 && Grid<double>::key(1.0) == 0);
    CHECK(Grid<double>::turn(Grid<double>::mask) == 1.0 - 0x1p-52);
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    for (int i = 0; i < 20000; ++i) {
        const double turn = uniform(random);
        CHECK(distance(Grid<double>::turn(Grid<double>::key(turn)), turn) <= 0x1p-53L);
        const auto single = static_cast<float>(turn);
        CHECK(distance(Grid<float>::turn(Grid<float>::key(single)), single) <= 0x1p-25L);
    }
}

TEST_CASE("grid: coordinates on the line wrap to turns") {
    CHECK(wrapped_turn(0.25) == 0.25 && wrapped_turn(-0.25) == 0.75 && wrapped_turn(7.5f) == 0.5f);
    CHECK(Grid<double>::key(wrapped_turn(-1e-300)) == 0);
}
