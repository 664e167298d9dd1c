// Costs of all slices: project, sort, cut, one slice at a time in cache (Algorithm 1).
#pragma once

#include <cstddef>
#include <vector>

#include "circle.hpp"
#include "powers.hpp"
#include "slices.hpp"
#include "threads.hpp"
#include "uniform.hpp"

namespace sphereot {

template <class T>
bool equal_atoms(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y) {
    return x.atoms == y.atoms && !x.weights && !y.weights;
}

// result[l] = pairing's answer on slice l, where `answer(pairing, power)` is the cost or the cut.
template <class T, class Answer>
void solve_slices(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, double p, std::size_t threads, double* result,
                  Answer answer) {
    with_power(p, [&](auto power) {
        share_out(x.slices, threads, [&, power] {
            const bool equal = equal_atoms(x, y);
            return [&, power, equal, a = Atoms<T>(x.atoms), b = Atoms<T>(y.atoms)](std::size_t slice) mutable {
                x.sort_slice(slice, a);
                y.sort_slice(slice, b);
                if (!equal) a.set_equal_masses(), b.set_equal_masses();
                result[slice] = answer(Pairing<T>{a, b, equal}, power);
            };
        });
    });
}

template <class T>
void solve_slices_uniform(const SlicedMeasure<T>& x, double p, std::size_t threads, double* result) {
    with_power(p, [&](auto power) {
        share_out(x.slices, threads, [&, power] {
            return [&, power, a = Atoms<T>(x.atoms)](std::size_t slice) mutable {
                x.sort_slice(slice, a);
                if (p != 2.0) a.set_equal_masses();
                result[slice] = uniform_cost(a, uniform_cut(a, power), power);
            };
        });
    });
}

// result[l, pair] for the pairs i < j of measures in order; each measure is projected and sorted once a slice.
template <class T>
void solve_slices_pairwise(const std::vector<SlicedMeasure<T>>& measures, double p, std::size_t threads,
                           double* result) {
    const std::size_t pairs = measures.size() * (measures.size() - 1) / 2;
    with_power(p, [&](auto power) {
        share_out(measures.front().slices, threads, [&, power] {
            std::vector<Atoms<T>> atoms;
            for (const auto& measure : measures) atoms.emplace_back(measure.atoms);
            return [&, power, atoms = std::move(atoms)](std::size_t slice) mutable {
                for (std::size_t i = 0; i < measures.size(); ++i) measures[i].sort_slice(slice, atoms[i]);
                double* cost = result + slice * pairs;
                for (std::size_t i = 0; i < measures.size(); ++i)
                    for (std::size_t j = i + 1; j < measures.size(); ++j) {
                        const bool equal = equal_atoms(measures[i], measures[j]);
                        if (!equal) atoms[i].set_equal_masses(), atoms[j].set_equal_masses();
                        const Pairing<T> pairing{atoms[i], atoms[j], equal};
                        *cost++ = pairing.cost(pairing.cut(power), power);
                    }
            };
        });
    });
}

}  // namespace sphereot
