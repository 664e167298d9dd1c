#include "circle/pairing.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "circle/merge_path.hpp"
#include "solvers/gradients.hpp"
#include "tests/check.hpp"

using namespace sphereot;

namespace {

enum class Weights { none, random, with_zeros, extreme, integers };

std::vector<double> random_weights(std::mt19937& random, std::size_t n, Weights kind) {
    std::exponential_distribution<double> exponential;
    std::uniform_real_distribution<double> uniform;
    std::vector<double> weights(n);
    for (auto& weight : weights) {
        weight = exponential(random);
        if (kind == Weights::with_zeros && uniform(random) < 0.7) weight = 0.0;
        if (kind == Weights::extreme) weight = std::pow(10.0, 600.0 * uniform(random) - 300.0);
        if (kind == Weights::integers) weight = std::floor(4.0 * uniform(random));
    }
    weights[n / 2] = std::max(weights[n / 2], 1.0);
    return weights;
}

// Sorted atoms at random turns: tied ones, a cluster, or spread over the circle.
template <Real T>
Atoms<T> random_atoms(std::mt19937& random, std::size_t n, const double* weights) {
    std::uniform_real_distribution<double> uniform;
    const double kind = uniform(random);
    Atoms<T> atoms(n);
    auto* keys = atoms.begin_keys();
    for (std::size_t i = 0; i < n; ++i) {
        const double turn = uniform(random);
        keys[i] = Grid<T>::key(static_cast<T>(kind < 0.2   ? std::floor(4.0 * turn) / 4.0
                                              : kind < 0.4 ? 0.3 + 0.01 * turn
                                                           : turn));
    }
    atoms.count(keys, n);
    atoms.sort_with_indices();
    if (weights) atoms.set_masses(weights);
    return atoms;
}

// C at a cut, by a plain walk over the levels.
template <Real T>
double cost_by_walk(const Atoms<T>& x, const Atoms<T>& y, double cut, double p) {
    const auto A = x.masses(), B = y.masses();
    double total = 0.0, level = 0.0, lap = std::floor(cut);
    std::size_t i = 0, j = 0;
    while (B[j + 1] <= cut - lap && j + 1 < y.size()) ++j;
    while (i < x.size()) {
        const double y_ends = B[j + 1] + lap - cut, next = std::min(A[i + 1], y_ends);
        const double shift = (static_cast<double>(x.turns()[i]) - static_cast<double>(y.turns()[j])) - lap;
        total += std::max(next - level, 0.0) * std::pow(std::fabs(shift), p);
        level = std::max(level, next);
        if (A[i + 1] <= y_ends) ++i;
        else if (++j == y.size()) {
            j = 0;
            lap += 1.0;
        }
    }
    return total;
}

// The least cost of all cuts at which levels meet.
template <Real T>
double cost_by_trial(const Atoms<T>& x, const Atoms<T>& y, double p) {
    double least = INFINITY;
    for (const double a : x.masses())
        for (const double b : y.masses())
            for (const double lap : {-1.0, 0.0, 1.0})
                if (const double cut = b - a + lap; std::fabs(cut) <= 1.0)
                    least = std::min(least, cost_by_walk(x, y, cut, p));
    return least;
}

template <Real T>
void check_least_costs(double tolerance) {
    std::mt19937 random(5);
    CutMemory memory;
    for (int trial = 0; trial < 600; ++trial) {
        const auto n = 1 + random() % 30, m = 1 + random() % 30;
        const auto kind = static_cast<Weights>(trial % 5);
        const std::vector<double> u = random_weights(random, n, kind), v = random_weights(random, m, kind);
        const bool weights = kind != Weights::none;
        auto x = random_atoms<T>(random, n, weights ? u.data() : nullptr);
        auto y = random_atoms<T>(random, m, weights && trial % 2 ? v.data() : nullptr);
        for (const double p : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 16.0}) {
            with_power(p, [&](auto power) {
                const auto matching = matching_of(n, m, weights);
                // Only the general case may look at masses.
                const Pairing<T> pairing{x, y, matching, memory};
                if (matching == Matching::general) {
                    x.set_equal_masses();
                    y.set_equal_masses();
                }
                const double cut = pairing.cut(power), least = pairing.cost(cut, power);
                auto with_masses = std::pair(x, y);
                with_masses.first.set_equal_masses();
                with_masses.second.set_equal_masses();
                const double expected = cost_by_trial(with_masses.first, with_masses.second, p);
                CHECK(std::fabs(cut) <= 1.0);
                CHECK(std::fabs(least - expected) <= tolerance * std::max(expected, 1e-3));
            });
        }
    }
}

// Gradients of two measures at their optimal cut, by the case that `matching` says.
template <Real T>
std::pair<std::vector<T>, std::vector<T>> turn_gradients(Atoms<T> x, Atoms<T> y, Matching matching, double cut) {
    CutMemory memory;
    std::vector<T> dx(x.size()), dy(y.size());
    const HalfPower<3> power;
    if (matching == Matching::unequal) {
        unequal_turn_gradient(x, y, cut, power, dx.data(), dy.data());
    } else {
        x.set_equal_masses();
        y.set_equal_masses();
        general_turn_gradient(x, y, cut, power, memory, dx.data(), dy.data());
    }
    return {dx, dy};
}

}  // namespace

TEST_CASE("merge path: the split counts the elements of the first array") {
    std::mt19937 random(1);
    for (int trial = 0; trial < 300; ++trial) {
        std::vector<double> first(random() % 20), second(random() % 20);
        for (auto* values : {&first, &second}) {
            for (auto& value : *values) value = static_cast<double>(random() % 15) / 16.0;
            std::sort(values->begin(), values->end());
        }
        std::size_t i = 0, j = 0;
        for (std::size_t steps = 0; steps <= first.size() + second.size(); ++steps) {
            CHECK(merge_split(first.data(), first.size(), second.data(), second.size(), steps) == i);
            const bool from_first = j == second.size() || (i < first.size() && first[i] < second[j]);
            (from_first ? i : j) += 1;
        }
    }
}

TEST_CASE("merge path: ranks of levels among masses, with ties and atoms without mass") {
    std::mt19937 random(2);
    for (int trial = 0; trial < 500; ++trial) {
        const std::size_t n = 1 + random() % 200, m = 1 + random() % 200;
        const unsigned values = trial % 2 ? 16 : 1u << 20;
        std::vector<double> masses(n + 1), levels(m);
        for (auto& mass : masses) mass = static_cast<double>(random() % values) / values;
        for (auto& level : levels) level = static_cast<double>(random() % values + 1) / values;
        std::sort(masses.begin(), masses.end());
        std::sort(levels.begin(), levels.end());
        masses[0] = 0.0;
        masses[n] = 1.0;
        std::vector<std::uint32_t> ranks(m);
        rank_levels(masses.data(), n, levels.data(), m, ranks.data());
        for (std::size_t r = 0; r < m; ++r) {
            CHECK(masses[ranks[r]] < levels[r]);
            CHECK(levels[r] <= masses[ranks[r] + 1]);
        }
    }
}

TEST_CASE("breakpoints: the distance at which a slope passes 0") {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform;
    for (int trial = 0; trial < 500; ++trial) {
        std::vector<std::pair<double, double>> changes(1 + random() % 300);
        const double values = trial % 2 ? 5.0 : 1e9;  // many equal distances, or few
        double total = 0.0;
        for (auto& [distance, change] : changes) {
            distance = std::floor(values * uniform(random));
            change = uniform(random);
            total += change;
        }
        const double slope = -0.999 * total * uniform(random);
        auto sorted = changes;
        std::sort(sorted.begin(), sorted.end());
        double expected = 0.0, reached = slope;
        for (std::size_t c = 0; c < sorted.size() && reached < 0.0; ++c) {
            expected = sorted[c].first;
            reached += sorted[c].second;
        }
        CHECK(passing_distance(slope, changes.data(), changes.data() + changes.size()) == expected);
        for (auto& at : changes) at.second = -at.second;
        CHECK(passing_distance(-slope, changes.data(), changes.data() + changes.size()) == expected);
    }
}

TEST_CASE("pairing: costs of all cases equal those of trying all cuts") {
    check_least_costs<double>(1e-12);
    check_least_costs<float>(1e-4);
}

TEST_CASE("pairing: unequal sizes equal their general case, cuts and gradients") {
    std::mt19937 random(6);
    CutMemory memory;
    for (int trial = 0; trial < 60; ++trial) {
        const std::size_t n = 1 + random() % 1500, m = 1 + random() % 1500;
        auto x = random_atoms<double>(random, n, nullptr), y = random_atoms<double>(random, m, nullptr);
        if (n == m) continue;
        for (const double p : {1.0, 1.5, 2.0, 2.5})
            with_power(p, [&](auto power) {
                const double cut = Pairing<double>{x, y, Matching::unequal, memory}.cut(power);
                const double cost = unequal_cost(x, y, cut, power);
                auto with_masses = std::pair(x, y);
                with_masses.first.set_equal_masses();
                with_masses.second.set_equal_masses();
                const Pairing<double> general{with_masses.first, with_masses.second, Matching::general, memory};
                const double general_cut = general.cut(power), expected = general.cost(general_cut, power);
                CHECK(std::fabs(cost - expected) <= 1e-12);
            });
        const double cut = Pairing<double>{x, y, Matching::unequal, memory}.cut(HalfPower<3>{});
        const auto unequal = turn_gradients(x, y, Matching::unequal, cut);
        const auto general = turn_gradients(x, y, Matching::general, whole_units(cut + 1.0) - 1.0);
        for (std::size_t i = 0; i < n; ++i) CHECK(std::fabs(unequal.first[i] - general.first[i]) <= 1e-9);
        for (std::size_t j = 0; j < m; ++j) CHECK(std::fabs(unequal.second[j] - general.second[j]) <= 1e-9);
    }
}
