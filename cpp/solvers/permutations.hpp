// Costs of a pooled sample under many labelings: the pool is projected and sorted once a slice, and a labeling only
// tells which of the sorted points belong to which sample.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/partition.hpp"
#include "circle/powers.hpp"
#include "circle/unequal_sizes.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "solvers/costs.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Labelings in groups of eight: bit b of byte (g, i) is set where labeling 8 g + b puts point i into the first sample.
struct Labelings {
    std::size_t count, points, first;  // `first` points of each labeling are in the first sample
    const std::uint8_t* bits;          // (ceil(count / 8), points)

    static constexpr std::size_t in_group = 8;

    std::size_t groups() const { return (count + in_group - 1) / in_group; }
    const std::uint8_t* group(std::size_t g) const { return bits + g * points; }

    // Whether every labeling has as many points as it should: samples are written without a look at their ends.
    bool have_the_right_size() const {
        for (std::size_t g = 0; g < groups(); ++g) {
            std::array<std::size_t, in_group> found{};
            for (std::size_t i = 0; i < points; ++i)
                for (std::size_t b = 0; b < in_group; ++b) found[b] += (group(g)[i] >> b) & 1u;
            for (std::size_t b = 0; b < in_group && g * in_group + b < count; ++b)
                if (found[b] != first) return false;
        }
        return true;
    }
};

// `first_cut` for labelings of one sorted pool. Its mean of the difference of levels, weighted by 1 / density, is
// linear in the labels, and the weights are those of the pool: each point of the first sample contributes a number of
// its own.
template <class T>
class PooledStart {
public:
    explicit PooledStart(std::size_t points) : share_(points) {}

    void set(const Atoms<T>& pool, std::size_t first) {
        constexpr int most_cells = 256;
        const std::size_t n = pool.size();
        const int stride = n < 8 * most_cells ? 8 : 1;
        const double in_x = static_cast<double>(first), in_y = static_cast<double>(n - first);
        const double x_step = 1.0 / in_x, y_step = 1.0 / in_y;
        std::array<double, most_cells> weight;
        double total = 0.0;
        bool empty = false;
        std::size_t before = 0;
        for (int cell = stride - 1; cell < most_cells; cell += stride) {
            const std::size_t passed = pool.passed(cell);
            // An empty cell has a kink of C; half a point there makes it count for more than any other cell.
            const double points = passed > before ? static_cast<double>(passed - before) : 0.5;
            empty |= passed == before;
            total += weight[cell] = static_cast<double>(n) / (2.0 * points);
            before = passed;
        }
        // A point counts in the levels of its own cell and of all later ones.
        double later = total, level_of_y = 0.0;
        before = 0;
        for (int cell = stride - 1; cell < most_cells; cell += stride) {
            for (std::size_t i = before; i < pool.passed(cell); ++i) {
                share_[i] = static_cast<float>((x_step + y_step) * later / total);
                level_of_y += y_step * later / total;
            }
            before = pool.passed(cell);
            later -= weight[cell];
        }
        const double cell_width = static_cast<double>(stride) / most_cells;
        start_ = {level_of_y, 4.0 * cell_width * cell_width * total, empty};
    }

    // The start for the labeling `b` of the group whose bytes, in the order of the sorted pool, are `labels`.
    Start for_labels(const std::uint8_t* labels, unsigned b) const {
        const float* share = share_.data();
        const double of_x = sum<float>(
            share_.size(), [=](std::size_t i) { return static_cast<float>((labels[i] >> b) & 1) * share[i]; });
        return {start_.point - of_x, start_.curvature, start_.kink};
    }

private:
    std::vector<float> share_;
    Start start_{};
};

// The sorted pool parted into two sorted samples.
template <class T>
void part(const Atoms<T>& pool, const std::uint8_t* labels, unsigned b, Atoms<T>& x, Atoms<T>& y) {
    part_by_label(pool.turns().data(), labels, b, pool.size(), x.begin_sorted(), y.begin_sorted());
    x.end_sorted();
    y.end_sorted();
}

// result[l, k]: the cost on slice l when labeling k says which points are in the first sample.
template <class T>
void solve_slices_relabeled(const SlicedMeasure<T>& pool, const Labelings& labelings, Question question,
                            const Execution& execution, double* result) {
    const std::size_t n = labelings.first, m = pool.atoms - n;
    with_power(question.p, 1.0, [&](auto power) {
        const std::size_t a_run = slices_a_run(pool, execution);
        share_out_slices(pool.slices, a_run, execution, [&, power](Watch& watch) {
            return [&, power, sorted = Atoms<T>(pool.atoms), x = Atoms<T>(n), y = Atoms<T>(m),
                    start = PooledStart<T>(pool.atoms), labels = std::vector<std::uint8_t>(pool.atoms),
                    own = InHand<T>(pool, a_run)](std::size_t first, std::size_t slices) mutable {
                constexpr bool large = is_large<decltype(power)>;  // their sums stay in range in the general case only
                const bool equal = n == m, unlike = !equal && fits_unlike_sizes(n, m) && !large;
                if (!equal && !unlike) x.set_equal_masses(), y.set_equal_masses();
                own.take(first, slices);
                for (std::size_t l = 0; l < slices; ++l) {
                    own.sort_slice(l, sorted, true);
                    start.set(sorted, n);
                    double* cost = result + (first + l) * labelings.count;
                    for (std::size_t k = 0; k < labelings.count; ++k) {
                        const std::size_t g = k / Labelings::in_group;
                        const auto b = static_cast<unsigned>(k % Labelings::in_group);
                        if (b == 0) {
                            const std::uint8_t* group = labelings.group(g);
                            for (std::size_t i = 0; i < pool.atoms; ++i) labels[i] = group[sorted.place(i)];
                        }
                        part(sorted, labels.data(), b, x, y);
                        const Pairing<T> pairing{x, y, equal};
                        const Start near = start.for_labels(labels.data(), b);
                        const auto least_cost = [&] {
                            if constexpr (!large)
                                if (unlike) return Total<decltype(power)>{power, least_unlike_cost(x, y, near, power)};
                            return pairing.cost(pairing.cut_from(near, power), power);
                        };
                        cost[k] = question.answer(least_cost());
                        watch.pass(pool.atoms);
                    }
                }
            };
        });
    });
}

}  // namespace sphereot
