// Costs of all slices: project, sort, cut, one slice at a time in cache (Algorithm 1).
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"

namespace sphereot {

template <class T>
bool equal_atoms(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y) {
    return x.atoms == y.atoms && !x.weights && !y.weights;
}

// The order of the costs, and whether W_p or W_p^p is wanted. W_p is in the range of doubles for every p.
struct CostOptions {
    double p;
    bool root;

    template <class Total>
    double value(const Total& cost) const {
        return root ? cost.root(p) : cost.cost();
    }
};

// result[l] = answer(pairing, power) on slice l.
template <class T, class Answer>
void solve_slices(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, double p, const Execution& execution,
                  double* result, Answer answer) {
    with_power(p, 1.0, [&](auto power) {
        const std::size_t run_length = slices_per_run(x, execution);
        parallel_for_slices(x.slices, run_length, execution, [&, power](Watch& watch) {
            const bool equal = equal_atoms(x, y);
            return [&, power, equal, a = Atoms<T>(x.atoms), b = Atoms<T>(y.atoms), run_x = SliceRun<T>(x, run_length),
                    run_y = SliceRun<T>(y, run_length)](std::size_t first, std::size_t count) mutable {
                run_x.load(first, count);
                run_y.load(first, count);
                for (std::size_t l = 0; l < count; ++l) {
                    run_x.sort_slice(l, a);
                    run_y.sort_slice(l, b);
                    if (!equal) {
                        a.set_equal_masses();
                        b.set_equal_masses();
                    }
                    result[first + l] = answer(Pairing<T>{a, b, equal}, power);
                    watch.pass(x.atoms + y.atoms);
                }
            };
        });
    });
}

template <class T>
void solve_slices_uniform(const SlicedMeasure<T>& x, CostOptions options, const Execution& execution, double* result) {
    with_power(options.p, 1.0, [&](auto power) {
        const std::size_t run_length = slices_per_run(x, execution);
        parallel_for_slices(x.slices, run_length, execution, [&, power](Watch& watch) {
            return [&, power, a = Atoms<T>(x.atoms), own = SliceRun<T>(x, run_length)](std::size_t first,
                                                                                       std::size_t count) mutable {
                own.load(first, count);
                for (std::size_t l = 0; l < count; ++l) {
                    own.sort_slice(l, a);
                    if (options.p != 2.0) a.set_equal_masses();
                    result[first + l] = options.value(uniform_cost(a, uniform_cut(a, power, watch), power));
                    watch.pass(x.atoms);
                }
            };
        });
    });
}

// result[l, pair] for the pairs i < j of measures in order; each measure is projected and sorted once a slice.
template <class T>
void solve_slices_pairwise(const std::vector<SlicedMeasure<T>>& measures, CostOptions options,
                           const Execution& execution, double* result) {
    const std::size_t pairs = measures.size() * (measures.size() - 1) / 2;
    with_power(options.p, 1.0, [&](auto power) {
        const std::size_t slices = measures.front().slices, run_length = slices_per_run(measures.front(), execution);
        parallel_for_slices(slices, run_length, execution, [&, power](Watch& watch) {
            std::vector<Atoms<T>> atoms;
            std::vector<SliceRun<T>> own;
            for (const auto& measure : measures) {
                atoms.emplace_back(measure.atoms);
                own.emplace_back(measure, run_length);
            }
            return [&, power, atoms = std::move(atoms), own = std::move(own)](std::size_t first,
                                                                              std::size_t count) mutable {
                for (auto& measure : own) measure.load(first, count);
                for (std::size_t l = 0; l < count; ++l) {
                    for (std::size_t i = 0; i < own.size(); ++i) {
                        own[i].sort_slice(l, atoms[i]);
                        watch.pass(measures[i].atoms);
                    }
                    double* cost = result + (first + l) * pairs;
                    for (std::size_t i = 0; i < own.size(); ++i)
                        for (std::size_t j = i + 1; j < own.size(); ++j) {
                            const bool equal = equal_atoms(measures[i], measures[j]);
                            if (!equal) {
                                atoms[i].set_equal_masses();
                                atoms[j].set_equal_masses();
                            }
                            const Pairing<T> pairing{atoms[i], atoms[j], equal};
                            *cost++ = options.value(pairing.cost(pairing.cut(power), power));
                            watch.pass(measures[i].atoms + measures[j].atoms);
                        }
                }
            };
        });
    });
}

}  // namespace sphereot
