#include "support/exp.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tests/check.hpp"

using namespace sphereot;

namespace {

// 2^x of numbers that fill two registers.
template <Real T>
std::vector<T> powers(const std::vector<T>& x) {
    constexpr std::size_t count = Lanes<T>::count;
    Lanes<T> lanes[2] = {Lanes<T>::read(x.data()), Lanes<T>::read(x.data() + count)};
    powers_of_two(lanes);
    std::vector<T> result(2 * count);
    lanes[0].write(result.data());
    lanes[1].write(result.data() + count);
    return result;
}

template <Real T>
T power_of_two(T x) {
    return powers(std::vector<T>(2 * Lanes<T>::count, x))[0];
}

// The largest error in units in the last place over [low, high]; the lanes hold different numbers.
template <Real T>
double max_error(double low, double high, int steps) {
    constexpr std::size_t size = 2 * Lanes<T>::count;
    double worst = 0.0;
    std::vector<T> x(size);
    for (int i = 0; i <= steps; ++i) {
        for (std::size_t lane = 0; lane < size; ++lane) {
            const double fraction = (i + static_cast<double>(lane) / static_cast<double>(size)) / (steps + 1);
            x[lane] = static_cast<T>(low + (high - low) * fraction);
        }
        const std::vector<T> result = powers(x);
        for (std::size_t lane = 0; lane < size; ++lane) {
            const long double exact = std::exp2(static_cast<long double>(x[lane]));
            const T rounded = static_cast<T>(exact);
            const long double unit = std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded;
            const long double error = std::fabs(static_cast<long double>(result[lane]) - exact);
            worst = std::max(worst, static_cast<double>(error / unit));
        }
    }
    return worst;
}

template <Real T>
void check_lanes() {
    constexpr std::size_t count = Lanes<T>::count;
    T numbers[count], shown[count];
    for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<T>(i) - T(1.5);
    const Lanes<T> x = Lanes<T>::read(numbers);
    const T expected = static_cast<T>(count) * (static_cast<T>(count - 1) / T(2) - T(1.5));
    CHECK(x.sum() == expected);
    at_least(T(0), x).write(shown);
    for (std::size_t i = 0; i < count; ++i) CHECK(shown[i] == std::max(T(0), numbers[i]));
    at_most(T(0), x).write(shown);
    for (std::size_t i = 0; i < count; ++i) CHECK(shown[i] == std::min(T(0), numbers[i]));
    multiply_add(x, x, T(3)).write(shown);
    for (std::size_t i = 0; i < count; ++i) CHECK(shown[i] == numbers[i] * numbers[i] + T(3));
    const Lanes<T> none = Lanes<T>::all(std::numeric_limits<T>::quiet_NaN());
    CHECK(std::isnan(at_least(T(0), none).sum()) && std::isnan(at_most(T(0), none).sum()));
}

}  // namespace

TEST_CASE("lanes: sums, bounds, products") {
    check_lanes<float>();
    check_lanes<double>();
}

TEST_CASE("powers_of_two: within two units in the last place over the whole range") {
    CHECK(max_error<float>(-125.0, 127.0, 20000) < 2.0);
    CHECK(max_error<float>(-1.0, 1.0, 20000) < 2.0);
    CHECK(max_error<double>(-1021.0, 1023.0, 20000) < 2.0);
    CHECK(max_error<double>(-1.0, 1.0, 20000) < 2.0);
}

TEST_CASE("powers_of_two: limits, integers and NaN") {
    for (int k = -125; k <= 127; ++k) CHECK(power_of_two(static_cast<float>(k)) == std::ldexp(1.0f, k));
    for (int k = -1021; k <= 1023; ++k) CHECK(power_of_two(static_cast<double>(k)) == std::ldexp(1.0, k));
    CHECK(power_of_two(-1e30f) == power_of_two(-125.0f) && power_of_two(-1e300) == power_of_two(-1021.0));
    CHECK(power_of_two(1e30f) == power_of_two(127.0f) && power_of_two(1e300) == power_of_two(1023.0));
    CHECK(std::isnan(power_of_two(NAN)) && std::isnan(power_of_two(static_cast<double>(NAN))));
}
