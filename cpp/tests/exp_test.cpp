#include "support/exp.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

#include "tests/check.hpp"

using namespace sphereot;

namespace {

// The largest error in units in the last place over [low, high].
template <Real T>
double max_error(double low, double high, int points) {
    double worst = 0.0;
    for (int i = 0; i <= points; ++i) {
        const T x = static_cast<T>(low + (high - low) * i / points);
        const long double exact = std::exp(static_cast<long double>(x));
        const T rounded = static_cast<T>(exact);
        const long double unit = std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded;
        const long double error = std::fabs(static_cast<long double>(exponential(x)) - exact);
        worst = std::max(worst, static_cast<double>(error / unit));
    }
    return worst;
}

}  // namespace

TEST_CASE("exp: within two units in the last place over the whole range") {
    CHECK(max_error<float>(-86.0, 88.0, 300000) < 2.0);
    CHECK(max_error<float>(-1.0, 1.0, 300000) < 2.0);
    CHECK(max_error<double>(-708.0, 709.0, 300000) < 2.0);
    CHECK(max_error<double>(-1.0, 1.0, 300000) < 2.0);
}

TEST_CASE("exp: limits, zero and NaN") {
    CHECK(exponential(0.0f) == 1.0f && exponential(0.0) == 1.0);
    CHECK(exponential(-1e30f) == exponential(-86.0f) && exponential(-1e300) == exponential(-708.0));
    CHECK(exponential(1e30f) == exponential(88.0f) && exponential(1e300) == exponential(709.0));
    CHECK(exponential(-86.0f) > std::numeric_limits<float>::min());
    CHECK(exponential(-708.0) > std::numeric_limits<double>::min());
    CHECK(std::isnan(exponential(NAN)) && std::isnan(exponential(static_cast<double>(NAN))));
}
