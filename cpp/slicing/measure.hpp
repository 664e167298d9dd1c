// A measure on many circles: points from a source of turns, with weights.
#pragma once

#include <cstddef>
#include <variant>

#include "slicing/sources.hpp"
#include "support/real.hpp"

namespace sphereot {

// A measure of `atoms` points, seen on `slices` circles. It does not own the memory.
template <Real T>
struct SlicedMeasure {
    AnySource<T> source;
    std::size_t slices, atoms, dim;
    const double* weights;  // (atoms) or (slices, atoms), or null for equal weights
    bool weights_per_slice;

    const double* slice_weights(std::size_t slice) const {
        return weights && weights_per_slice ? weights + slice * atoms : weights;
    }
    bool sums_slices() const {
        return std::visit([](const auto& form) { return form.sums_slices; }, source);
    }
    bool projects_runs() const {
        return std::visit([](const auto& form) { return form.projects_runs; }, source);
    }
};

}  // namespace sphereot
