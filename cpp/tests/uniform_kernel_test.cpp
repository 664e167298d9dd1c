#include "circle/uniform_kernel.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "solvers/uniform_pairs.hpp"
#include "support/log.hpp"
#include "tests/check.hpp"

using namespace sphereot;

namespace {

// The kernel for d = 2, where D_d is 0: K(gamma) = B2(gamma / 2 pi) / 2.
template <Real T>
UniformKernel<T> circle_kernel() {
    UniformKernel<T> kernel;
    kernel.smooth.fill(T(0));
    kernel.logarithmic.fill(T(0));
    return kernel;
}

template <Real T>
double max_logarithm_error() {
    double worst = 0.0;
    for (int i = 0; i < 200000; ++i) {
        const T x = static_cast<T>(std::exp(-80.0 + 160.0 * i / 200000.0));
        const double exact = std::log(static_cast<double>(x));
        const double error = std::fabs(static_cast<double>(logarithm(x)) - exact);
        worst = std::max(worst, error / (std::fabs(exact) + 1.0));
    }
    return worst;
}

template <Real T>
double max_kernel_error() {
    double worst = 0.0;
    for (int i = 0; i <= 100000; ++i) {
        const T square = static_cast<T>(i / 100000.0);
        const double g = std::asin(std::sqrt(static_cast<double>(square))) / 3.14159265358979323846;
        const double exact = 0.5 * (g * g - g + 1.0 / 6.0);
        const auto value = circle_kernel<T>().template operator()<false>(square).kernel;
        worst = std::max(worst, std::fabs(static_cast<double>(value) - exact));
    }
    return worst;
}

}  // namespace

TEST_CASE("log: relative to 1 + |log x|") {
    CHECK(max_logarithm_error<float>() < 2e-7);
    CHECK(max_logarithm_error<double>() < 4e-16);
    CHECK(logarithm(1.0f) == 0.0f && logarithm(1.0) == 0.0);
}

TEST_CASE("uniform kernel: the closed form on the circle") {
    CHECK(max_kernel_error<float>() < 5e-8);
    CHECK(max_kernel_error<double>() < 2e-16);
}

TEST_CASE("uniform kernel: ends and what is outside") {
    const auto kernel = circle_kernel<double>();
    for (const double below : {0.0, -1e-9, -1.0}) {
        const auto value = kernel.operator()<true>(below);
        CHECK(value.kernel == 1.0 / 12 && value.derivative == 0.0);
    }
    for (const double above : {1.0, 1.0 + 1e-9, 2.0}) {
        const auto value = kernel.operator()<true>(above);
        CHECK(value.kernel == -1.0 / 24 && value.derivative == 0.0);
    }
}

TEST_CASE("uniform kernel: odd part plus weight times even part") {
    auto kernel = circle_kernel<double>();
    for (const double square : {1e-12, 1e-3, 0.2, 0.5, 0.7, 0.999}) {
        const auto here = kernel.operator()<true>(square), opposite = kernel.operator()<true>(1.0 - square);
        auto weighted = kernel;
        weighted.even_weight = 7.0;
        const auto value = weighted.operator()<true>(square);
        const double odd = 0.5 * (here.kernel - opposite.kernel), even = 0.5 * (here.kernel + opposite.kernel);
        CHECK(std::fabs(value.kernel - (odd + 7.0 * even)) < 1e-14);
        const double slope = 4.0 * here.derivative - 3.0 * opposite.derivative;
        CHECK(std::fabs(value.derivative - slope) < 1e-9 * std::fabs(slope));
    }
}

TEST_CASE("pairs: points spread evenly over the circle cost 1 / (12 n^2), and no gradient") {
    for (const std::size_t n : {1u, 2u, 63u, 64u, 65u, 200u}) {
        std::vector<double> points(2 * n), gradient(2 * n), potentials(n);
        for (std::size_t i = 0; i < n; ++i) {
            const double angle = 2.0 * 3.14159265358979323846 * static_cast<double>(i) / static_cast<double>(n);
            points[2 * i] = std::cos(angle);
            points[2 * i + 1] = std::sin(angle);
        }
        for (const std::size_t threads : {1u, 3u}) {
            const double cost = sum_pairs<double>({n, 2, points.data(), nullptr, circle_kernel<double>()},
                                                  {potentials.data(), gradient.data()}, 4, {threads});
            const double exact = 1.0 / (12.0 * static_cast<double>(n * n));
            CHECK(std::fabs(cost - exact) < 1e-15);
            for (std::size_t i = 0; i < n; ++i) CHECK(std::fabs(potentials[i] - exact) < 1e-15);
            for (const double slope : gradient) CHECK(std::fabs(slope) < 1e-9);
        }
    }
}
