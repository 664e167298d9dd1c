// Costs between two samples under many labelings of their pool: the pool is projected and sorted once per slice, and
// each labeling splits the sorted points into two samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/partition.hpp"
#include "circle/powers.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "solvers/costs.hpp"
#include "support/real.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Labelings in groups of eight: bit b of byte (g, i) is set where labeling 8 g + b puts point i into the first sample.
struct Labelings {
    std::size_t count, points, first;  // each labeling puts `first` points into the first sample
    const std::uint8_t* bits;          // (ceil(count / 8), points)

    static constexpr std::size_t per_group = 8;

    std::size_t groups() const { return (count + per_group - 1) / per_group; }
    const std::uint8_t* group(std::size_t g) const { return bits + g * points; }

    // Whether each labeling has `first` points in the first sample. It must, since samples are written without bounds
    // checks.
    bool have_valid_sizes() const {
        for (std::size_t g = 0; g < groups(); ++g) {
            std::array<std::size_t, per_group> sizes{};
            for (std::size_t i = 0; i < points; ++i)
                for (std::size_t b = 0; b < per_group; ++b) sizes[b] += (group(g)[i] >> b) & 1u;
            for (std::size_t b = 0; b < per_group && g * per_group + b < count; ++b)
                if (sizes[b] != first) return false;
        }
        return true;
    }
};

// `initial_cut` for labelings of one sorted pool. Its mean of differences of levels, weighted by 1 / density, is linear
// in the labels, and the weights are those of the pool: each point of the first sample contributes a fixed number.
template <Real T>
class PooledInitialCut {
public:
    explicit PooledInitialCut(std::size_t points) : share_(points) {}

    // Prepares for a sorted pool whose labelings put `first` points into the first sample.
    void set(const Atoms<T>& pool, std::size_t first) {
        const std::size_t n = pool.size();
        const Cells cells(n);
        const double in_x = static_cast<double>(first), in_y = static_cast<double>(n - first);
        const double x_step = 1.0 / in_x, y_step = 1.0 / in_y;
        std::array<double, Cells::count> weight;
        double total = 0.0;
        bool empty = false;
        std::size_t before = 0;
        for (int cell = cells.first(); cell < Cells::count; cell += cells.stride) {
            const std::size_t passed = pool.passed(cell);
            // In an empty cell C has a kink; half a point gives it more weight than any other cell.
            const double points = passed > before ? static_cast<double>(passed - before) : 0.5;
            empty |= passed == before;
            weight[static_cast<std::size_t>(cell)] = static_cast<double>(n) / (2.0 * points);
            total += weight[static_cast<std::size_t>(cell)];
            before = passed;
        }
        // A point adds to the levels of its own cell and of all later ones.
        double later = total, level_of_y = 0.0;
        before = 0;
        for (int cell = cells.first(); cell < Cells::count; cell += cells.stride) {
            for (std::size_t i = before; i < pool.passed(cell); ++i) {
                share_[i] = static_cast<float>((x_step + y_step) * later / total);
                level_of_y += y_step * later / total;
            }
            before = pool.passed(cell);
            later -= weight[static_cast<std::size_t>(cell)];
        }
        base_ = {level_of_y, 4.0 * cells.width() * cells.width() * total, empty};
    }

    // The initial cut of labeling b of a group; `labels` are its bytes in the order of the sorted pool.
    InitialCut for_labels(const std::uint8_t* labels, unsigned b) const {
        const float* share = share_.data();
        const double of_x = sum<float>(
            share_.size(), [=](std::size_t i) { return static_cast<float>((labels[i] >> b) & 1) * share[i]; });
        return {base_.point - of_x, base_.curvature, base_.kink};
    }

private:
    std::vector<float> share_;
    InitialCut base_{};
};

// Splits the sorted pool into two sorted samples by bit b of the labels.
template <Real T>
void partition(const Atoms<T>& pool, const std::uint8_t* labels, unsigned b, Atoms<T>& x, Atoms<T>& y) {
    partition_by_label(pool.turns().data(), labels, b, pool.size(), x.begin_sorted(), y.begin_sorted());
    x.end_sorted();
    y.end_sorted();
}

// Writes result[l, k] for slices l of the pool and all labelings k.
template <Real T, CostPower Power>
class RelabelWorker {
public:
    RelabelWorker(const SlicedMeasure<T>& pool, const Labelings& labelings, std::size_t run_length, Power power,
                  double* result, Watch& watch)
        : labelings_(labelings),
          power_(power),
          result_(result),
          watch_(watch),
          sorted_(pool.atoms),
          x_(labelings.first),
          y_(pool.atoms - labelings.first),
          initial_cut_(pool.atoms),
          labels_(pool.atoms),
          run_(pool, run_length) {
        matching_ = matching_of(x_.size(), y_.size(), false);
        if (matching_ == Matching::general) {
            x_.set_equal_masses();
            y_.set_equal_masses();
        }
    }

    void operator()(std::size_t first, std::size_t count) {
        run_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            run_.sort_slice(l, sorted_, true);
            initial_cut_.set(sorted_, labelings_.first);
            solve_labelings(result_ + (first + l) * labelings_.count);
        }
    }

private:
    void solve_labelings(double* cost) {
        for (std::size_t k = 0; k < labelings_.count; ++k) {
            const auto b = static_cast<unsigned>(k % Labelings::per_group);
            if (b == 0) {
                const std::uint8_t* group = labelings_.group(k / Labelings::per_group);
                for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = group[sorted_.source_index(i)];
            }
            partition(sorted_, labels_.data(), b, x_, y_);
            cost[k] = least_cost(initial_cut_.for_labels(labels_.data(), b));
            watch_.pass(sorted_.size());
        }
    }

    double least_cost(const InitialCut& near) {
        const Pairing<T> pairing{x_, y_, matching_, memory_};
        return pairing.cost(pairing.cut_from(near, power_), power_);
    }

    const Labelings& labelings_;
    Power power_;
    double* result_;
    Watch& watch_;
    Atoms<T> sorted_, x_, y_;
    PooledInitialCut<T> initial_cut_;
    std::vector<std::uint8_t> labels_;  // of one group, in the order of the sorted pool
    SliceRun<T> run_;
    Matching matching_;
    CutMemory memory_;
};

// result[l, k]: the cost on slice l when labeling k says which points are in the first sample.
template <Real T>
void solve_slices_relabeled(const SlicedMeasure<T>& pool, const Labelings& labelings, double p,
                            const Execution& execution, double* result) {
    const std::size_t run_length = slices_per_run(pool, execution);
    with_power(p, [&](auto power) {
        parallel_for_slices(pool.slices, run_length, execution, [&](Watch& watch) {
            return RelabelWorker<T, decltype(power)>(pool, labelings, run_length, power, result, watch);
        });
    });
}

}  // namespace sphereot
