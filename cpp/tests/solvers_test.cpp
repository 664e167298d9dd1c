#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>
#include <stdexcept>
#include <vector>

#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "slicing/sources.hpp"
#include "solvers/costs.hpp"
#include "solvers/gradients.hpp"
#include "solvers/resamples.hpp"
#include "support/parallel.hpp"
#include "tests/check.hpp"

using namespace sphereot;

namespace {

constexpr std::size_t slices = 12;

// Random points (atoms, dim) with all that the four sources need.
template <Real T>
struct Points {
    std::size_t atoms, dim;
    std::vector<T> rows, columns, frames, planar, turns;

    Points(std::size_t n, std::size_t d, unsigned seed) : atoms(n), dim(d) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal;
        rows.resize(n * d);
        for (auto& value : rows) value = static_cast<T>(normal(random));
        columns.resize(n * d);
        transpose(rows.data(), d, n, d, columns.data(), n);
        std::vector<float> drawn(slices * d * 2);
        draw_frames({3, 0}, slices, d, Execution{1}, drawn.data());
        frames.assign(drawn.begin(), drawn.end());
        for (std::size_t l = 0; l < slices; ++l)
            for (std::size_t c = 0; c < 2; ++c)
                for (std::size_t i = 0; i < n; ++i) {
                    double sum = 0.0;
                    for (std::size_t k = 0; k < d; ++k)
                        sum += static_cast<double>(frames[(l * d + k) * 2 + c]) * static_cast<double>(rows[i * d + k]);
                    planar.push_back(static_cast<T>(sum));
                }
        for (std::size_t l = 0; l < slices; ++l)
            for (std::size_t i = 0; i < n; ++i) {
                const T *first = planar.data() + l * 2 * n, *second = first + n;
                turns.push_back(planar_turn(first[i], second[i]));
            }
    }

    SlicedMeasure<T> measure(AnySource<T> source, const double* weights = nullptr) const {
        return {source, slices, atoms, dim, weights, false};
    }
    std::vector<SlicedMeasure<T>> all_forms(const double* weights = nullptr) const {
        return {measure(TurnSource<T>{atoms, turns.data()}, weights),
                measure(PlanarSource<T>{atoms, planar.data()}, weights),
                measure(ColumnSource<T>{atoms, dim, columns.data(), frames.data()}, weights),
                measure(RowSource<T>{atoms, dim, rows.data(), frames.data()}, weights)};
    }
};

template <Real T>
std::vector<double> costs(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, double p, std::size_t threads = 1) {
    std::vector<double> result(slices);
    solve_slices(x, y, p, Execution{threads}, result.data(),
                 [](const auto& pairing, auto power) { return pairing.cost(pairing.cut(power), power); });
    return result;
}

// The cost of n equal atoms each by trying every cut.
template <Real T>
double cost_by_trial(const T* x, const T* y, std::size_t n, double p) {
    std::vector<double> a(x, x + n), b(y, y + n);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    const auto size = static_cast<std::ptrdiff_t>(n);
    double least = INFINITY;
    for (std::ptrdiff_t k = -size; k <= size; ++k) {
        double total = 0.0;
        for (std::ptrdiff_t i = 0; i < size; ++i) {
            const std::ptrdiff_t j = i + k, lap = (j + 2 * size) / size - 2;
            const double lifted = b[static_cast<std::size_t>(j - lap * size)] + static_cast<double>(lap);
            total += std::pow(std::fabs(a[static_cast<std::size_t>(i)] - lifted), p);
        }
        least = std::min(least, total / static_cast<double>(n));
    }
    return least;
}

template <Real T>
void check_costs(double tolerance) {
    const Points<T> x(37, 5, 1), y(37, 5, 2);
    for (const double p : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0})
        for (const auto& form_x : x.all_forms())
            for (const auto& form_y : y.all_forms()) {
                const auto found = costs(form_x, form_y, p);
                for (std::size_t l = 0; l < slices; ++l) {
                    const double expected =
                        cost_by_trial(x.turns.data() + l * x.atoms, y.turns.data() + l * y.atoms, x.atoms, p);
                    CHECK(std::fabs(found[l] - expected) <= tolerance * std::max(expected, 1e-3));
                }
            }
}

}  // namespace

TEST_CASE("solvers: costs of every source equal those of trying all cuts") {
    check_costs<double>(1e-12);
    check_costs<float>(1e-4);
}

TEST_CASE("solvers: weights that repeat an atom equal repeated atoms") {
    const Points<double> x(20, 3, 1), y(30, 3, 2);
    std::vector<double> twice(x.turns.size() * 2), weights(30, 1.0);
    for (std::size_t l = 0; l < slices; ++l)
        for (std::size_t i = 0; i < 40; ++i) twice[l * 40 + i] = x.turns[l * 20 + i / 2];
    for (const double p : {1.0, 2.0, 2.5, 6.0}) {
        const auto repeated =
            costs<double>({TurnSource<double>{40, twice.data()}, slices, 40, 1, nullptr, false}, y.all_forms()[0], p);
        const auto single = costs(x.all_forms()[0], y.all_forms(weights.data())[0], p);
        for (std::size_t l = 0; l < slices; ++l) CHECK(std::fabs(repeated[l] - single[l]) <= 1e-12);
    }
}

// Resamples of `size` points in total, drawn with replacement; the first has one point `size` times.
std::vector<std::uint32_t> drawn_repeats(std::size_t count, std::size_t points, std::size_t size) {
    std::mt19937 random(7);
    std::uniform_int_distribution<std::size_t> point(0, points - 1);
    std::vector<std::uint32_t> repeats(count * points, 0);
    repeats[0] = static_cast<std::uint32_t>(size);
    for (std::size_t k = 1; k < count; ++k)
        for (std::size_t i = 0; i < size; ++i) ++repeats[k * points + point(random)];
    return repeats;
}

template <Real T>
void check_resamples(double tolerance) {
    constexpr std::size_t count = 5;
    for (const std::size_t size : {40, 31}) {  // of the second measure: as many as of the first, or another number
        const Points<T> x(30, 3, 1), y(25, 3, 2);
        const auto repeats_x = drawn_repeats(count, 30, 40), repeats_y = drawn_repeats(count, 25, size);
        const Resamples of_x{count, 30, 40, repeats_x.data()}, of_y{count, 25, size, repeats_y.data()};
        CHECK(of_x.have_valid_sizes() && of_y.have_valid_sizes());
        CHECK(!(Resamples{count, 30, 41, repeats_x.data()}.have_valid_sizes()));
        for (const double p : {1.0, 1.5, 2.0, 4.0}) {
            std::vector<double> both(slices * count), uniform(slices * count), expected(slices);
            solve_slices_resampled(x.all_forms()[2], of_x, y.all_forms()[3], of_y, p, Execution{2}, both.data());
            solve_slices_uniform_resampled(x.all_forms()[1], of_x, p, Execution{2}, uniform.data());
            for (std::size_t k = 0; k < count; ++k) {
                const std::vector<double> a(of_x.of(k), of_x.of(k) + 30), b(of_y.of(k), of_y.of(k) + 25);
                const auto pair = costs(x.all_forms(a.data())[2], y.all_forms(b.data())[3], p);
                solve_slices_uniform(x.all_forms(a.data())[1], p, Execution{1}, expected.data());
                for (std::size_t l = 0; l < slices; ++l) {
                    CHECK(std::fabs(both[l * count + k] - pair[l]) <= tolerance);
                    CHECK(std::fabs(uniform[l * count + k] - expected[l]) <= tolerance);
                }
            }
        }
    }
}

TEST_CASE("solvers: resamples equal weights that count the repeats") {
    check_resamples<double>(1e-12);
    check_resamples<float>(1e-5);
}

TEST_CASE("solvers: the number of threads does not change a bit") {
    const Points<float> x(700, 40, 1), y(650, 40, 2);
    for (std::size_t form = 0; form < 4; ++form) {
        const auto one = costs(x.all_forms()[form], y.all_forms()[form], 2.0, 1);
        CHECK(one == costs(x.all_forms()[form], y.all_forms()[form], 2.0, 3));
    }
}

TEST_CASE("solvers: gradients in points equal finite differences, for every source") {
    Points<double> x(15, 4, 1);
    const Points<double> y(15, 4, 2);
    const double step = 1e-6;
    for (const double p : {1.5, 2.0, 3.0}) {
        const auto total = [&](const Points<double>& points) {
            double sum = 0.0;
            const auto measure = points.measure(RowSource<double>{15, 4, points.rows.data(), points.frames.data()});
            for (const double cost : costs(measure, y.all_forms()[3], p)) sum += cost;
            return sum;
        };
        const auto gradient_of = [&](std::size_t form) {
            std::vector<double> gradient(x.rows.size()), values(slices);
            differentiate_slices<double>(x.all_forms()[form], y.all_forms()[form], p, 3, Execution{2}, values.data(),
                                         {gradient.data(), nullptr, 1.0}, {nullptr, nullptr, 1.0});
            return gradient;
        };
        const auto by_columns = gradient_of(2), by_rows = gradient_of(3);
        for (std::size_t i = 0; i < x.rows.size(); ++i) {
            Points<double> ahead = x, behind = x;
            ahead.rows[i] += step;
            behind.rows[i] -= step;
            const double expected = (total(ahead) - total(behind)) / (2.0 * step);
            CHECK(std::fabs(by_columns[i] - expected) <= 1e-5);
            CHECK(std::fabs(by_rows[i] - expected) <= 1e-5);
        }
    }
}

TEST_CASE("solvers: against the uniform measure, equidistant atoms cost as the closed form says") {
    const std::size_t n = 50;
    std::vector<double> turns(slices * n), result(slices);
    for (std::size_t l = 0; l < slices; ++l)
        for (std::size_t i = 0; i < n; ++i)
            turns[l * n + i] = (static_cast<double>(i) + 0.1 * static_cast<double>(l)) / static_cast<double>(n);
    const SlicedMeasure<double> x{TurnSource<double>{n, turns.data()}, slices, n, 1, nullptr, false};
    for (const double p : {1.0, 1.5, 2.0, 2.5, 4.0, 9.0}) {
        solve_slices_uniform(x, p, Execution{1}, result.data());
        // Each atom covers an arc of 1 / n: W_p^p = (1 / 2n)^p / (p + 1).
        const double expected = 0.5 / static_cast<double>(n) * std::pow(p + 1.0, -1.0 / p);
        for (const double value : result) CHECK(std::fabs(std::pow(value, 1.0 / p) - expected) <= 1e-12);
    }
}

TEST_CASE("parallel loops: every task runs once, and the first exception is rethrown") {
    std::vector<std::atomic<int>> runs(1000);
    parallel_for(runs.size(), Execution{4}, [&](Watch&) { return [&](std::size_t task) { ++runs[task]; }; });
    for (const auto& count : runs) CHECK(count == 1);
    bool thrown = false;
    try {
        parallel_for(100, Execution{3}, [](Watch&) {
            return [](std::size_t task) {
                if (task == 50) throw std::runtime_error("task 50");
            };
        });
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
}
