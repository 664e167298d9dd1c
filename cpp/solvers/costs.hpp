// Costs of all slices: each slice is projected, sorted and cut while it is in the cache (Algorithm 1).
#pragma once

#include <concepts>
#include <cstddef>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

// How the atoms of both measures are matched.
template <Real T>
Matching matching_of(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y) {
    return matching_of(x.atoms, y.atoms, x.weights || y.weights);
}

// Sorted atoms of two measures as a pairing. Sets masses where they are needed and the measures have no weights.
template <Real T>
Pairing<T> paired(Atoms<T>& a, Atoms<T>& b, Matching matching, CutMemory& memory) {
    if (matching == Matching::general) {
        a.set_equal_masses();
        b.set_equal_masses();
    }
    return {a, b, matching, memory};
}

// A function of a pairing and a power: what is computed for each slice of two measures.
template <class Value, class T, class Power>
concept PairingValue = requires(const Value value, const Pairing<T>& pairing, Power power) {
    { value(pairing, power) } -> std::same_as<double>;
};

// Writes result[l] = value(pairing, power) for slices l of two measures.
template <Real T, CostPower Power, PairingValue<T, Power> Value>
class PairWorker {
public:
    PairWorker(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, std::size_t run_length, Power power, Value value,
               double* result, Watch& watch)
        : power_(power),
          value_(value),
          result_(result),
          watch_(watch),
          matching_(matching_of(x, y)),
          a_(x.atoms),
          b_(y.atoms),
          run_x_(x, run_length),
          run_y_(y, run_length) {}

    void operator()(std::size_t first, std::size_t count) {
        run_x_.load(first, count);
        run_y_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            run_x_.sort_slice(l, a_);
            run_y_.sort_slice(l, b_);
            result_[first + l] = value_(paired(a_, b_, matching_, memory_), power_);
            watch_.pass(a_.size() + b_.size());
        }
    }

private:
    Power power_;
    Value value_;
    double* result_;
    Watch& watch_;
    Matching matching_;
    CutMemory memory_;
    Atoms<T> a_, b_;
    SliceRun<T> run_x_, run_y_;
};

// result[l] = value(pairing, power) on slice l.
template <Real T, class Value>
void solve_slices(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, double p, const Execution& execution,
                  double* result, Value value) {
    const std::size_t run_length = slices_per_run(x, execution);
    with_power(p, [&](auto power) {
        parallel_for_slices(x.slices, run_length, execution, [&](Watch& watch) {
            return PairWorker<T, decltype(power), Value>(x, y, run_length, power, value, result, watch);
        });
    });
}

// Writes result[l] for slices l of one measure against the uniform one.
template <Real T, CostPower Power>
class UniformWorker {
public:
    UniformWorker(const SlicedMeasure<T>& x, std::size_t run_length, Power power, double p, double* result,
                  Watch& watch)
        : power_(power), p_(p), result_(result), watch_(watch), a_(x.atoms), run_(x, run_length) {}

    void operator()(std::size_t first, std::size_t count) {
        run_.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            run_.sort_slice(l, a_);
            if (p_ != 2.0) a_.set_equal_masses();
            result_[first + l] = uniform_cost(a_, uniform_cut(a_, power_, watch_), power_);
            watch_.pass(a_.size());
        }
    }

private:
    Power power_;
    double p_;
    double* result_;
    Watch& watch_;
    Atoms<T> a_;
    SliceRun<T> run_;
};

// result[l]: the cost of slice l against the uniform measure.
template <Real T>
void solve_slices_uniform(const SlicedMeasure<T>& x, double p, const Execution& execution, double* result) {
    const std::size_t run_length = slices_per_run(x, execution);
    with_power(p, [&](auto power) {
        parallel_for_slices(x.slices, run_length, execution, [&](Watch& watch) {
            return UniformWorker<T, decltype(power)>(x, run_length, power, p, result, watch);
        });
    });
}

// Writes result[l, pair] for slices l of several measures.
template <Real T, CostPower Power>
class PairwiseWorker {
public:
    PairwiseWorker(const std::vector<SlicedMeasure<T>>& measures, std::size_t run_length, Power power, double* result,
                   Watch& watch)
        : measures_(measures), power_(power), result_(result), watch_(watch) {
        atoms_.reserve(measures.size());
        runs_.reserve(measures.size());
        for (const auto& measure : measures) {
            atoms_.emplace_back(measure.atoms);
            runs_.emplace_back(measure, run_length);
        }
    }

    void operator()(std::size_t first, std::size_t count) {
        for (auto& run : runs_) run.load(first, count);
        for (std::size_t l = 0; l < count; ++l) {
            for (std::size_t i = 0; i < runs_.size(); ++i) {
                runs_[i].sort_slice(l, atoms_[i]);
                watch_.pass(atoms_[i].size());
            }
            solve_pairs(result_ + (first + l) * runs_.size() * (runs_.size() - 1) / 2);
        }
    }

private:
    void solve_pairs(double* cost) {
        for (std::size_t i = 0; i < atoms_.size(); ++i)
            for (std::size_t j = i + 1; j < atoms_.size(); ++j) {
                const auto pairing = paired(atoms_[i], atoms_[j], matching_of(measures_[i], measures_[j]), memory_);
                *cost++ = pairing.cost(pairing.cut(power_), power_);
                watch_.pass(atoms_[i].size() + atoms_[j].size());
            }
    }

    const std::vector<SlicedMeasure<T>>& measures_;
    Power power_;
    double* result_;
    Watch& watch_;
    CutMemory memory_;
    std::vector<Atoms<T>> atoms_;
    std::vector<SliceRun<T>> runs_;
};

// result[l, pair] for the pairs i < j of measures in order; each measure is projected and sorted once per slice.
template <Real T>
void solve_slices_pairwise(const std::vector<SlicedMeasure<T>>& measures, double p, const Execution& execution,
                           double* result) {
    const std::size_t slices = measures.front().slices, run_length = slices_per_run(measures.front(), execution);
    with_power(p, [&](auto power) {
        parallel_for_slices(slices, run_length, execution, [&](Watch& watch) {
            return PairwiseWorker<T, decltype(power)>(measures, run_length, power, result, watch);
        });
    });
}

}  // namespace sphereot
