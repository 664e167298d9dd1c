#include "support/exp.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

#include "tests/check.hpp"

using namespace sphereot;

namespace {

// 2^x of one number, in all lanes of two registers.
template <Real T>
T power_of_two(T x) {
    Lanes<T> lanes[2] = {Lanes<T>::all(x), Lanes<T>::all(x)};
    powers_of_two(lanes);
    T numbers[Lanes<T>::count];
    for (const Lanes<T>& register_of_powers : lanes) {
        register_of_powers.write(numbers);
        for (const T number : numbers) CHECK(number == numbers[0] || std::isnan(x));
    }
    return numbers[0];
}

// The largest error in units in the last place over [low, high].
template <Real T>
double max_error(double low, double high, int points) {
    double worst = 0.0;
    for (int i = 0; i <= points; ++i) {
        const T x = static_cast<T>(low + (high - low) * i / points);
        const long double exact = std::exp2(static_cast<long double>(x));
        const T rounded = static_cast<T>(exact);
        const long double unit = std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded;
        const long double error = std::fabs(static_cast<long double>(power_of_two(x)) - exact);
        worst = std::max(worst, static_cast<double>(error / unit));
    }
    return worst;
}

}  // namespace

TEST_CASE("powers_of_two: within two units in the last place over the whole range") {
    CHECK(max_error<float>(-125.0, 127.0, 300000) < 2.0);
    CHECK(max_error<float>(-1.0, 1.0, 300000) < 2.0);
    CHECK(max_error<double>(-1021.0, 1023.0, 300000) < 2.0);
    CHECK(max_error<double>(-1.0, 1.0, 300000) < 2.0);
}

TEST_CASE("powers_of_two: limits, integers and NaN") {
    for (int k = -125; k <= 127; ++k) CHECK(power_of_two(static_cast<float>(k)) == std::ldexp(1.0f, k));
    for (int k = -1021; k <= 1023; ++k) CHECK(power_of_two(static_cast<double>(k)) == std::ldexp(1.0, k));
    CHECK(power_of_two(-1e30f) == power_of_two(-125.0f) && power_of_two(-1e300) == power_of_two(-1021.0));
    CHECK(power_of_two(1e30f) == power_of_two(127.0f) && power_of_two(1e300) == power_of_two(1023.0));
    CHECK(std::isnan(power_of_two(NAN)) && std::isnan(power_of_two(static_cast<double>(NAN))));
}
