// Sums of the gradients of slices.
//
// A group is a range of slices whose gradients one task adds in order; the sums of the groups are added at the end, in
// order too. So the result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <variant>

#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "slicing/sources.hpp"
#include "slicing/transpose.hpp"
#include "support/real.hpp"

namespace sphereot {

// The arrays for the gradient of one measure; null where it is not wanted.
template <Real T>
struct GradientOutput {
    T* data;          // as `gradient_shape` of the source says
    double* weights;  // (atoms), or (slices, atoms) where slices are not summed
    double share;     // the factor of the gradient of each slice: 1 / L for a mean
};

// groups[0] += groups[1], groups[2], ... in order; at(group) is where a group of `size` numbers begins.
template <class At>
    requires std::is_pointer_v<std::invoke_result_t<At, std::size_t>>
void add_groups(std::size_t groups, std::size_t size, At at) {
    auto* total = at(std::size_t{0});
    for (std::size_t group = 1; group < groups; ++group) {
        const auto* term = at(group);
        for (std::size_t i = 0; i < size; ++i) total[i] += term[i];
    }
}

// Sums of gradients in points. target(group) is the `out` of the reader of the source; finish() writes the output.
template <class Sums, class T>
concept PointSums = requires(Sums sums, std::size_t group) {
    { sums.target(group) } -> std::same_as<T*>;
    sums.finish();
};

// For sources with points for each slice: each slice writes to its part of the output.
template <Real T>
struct SlicePointSums {
    T* out;

    T* target(std::size_t) const { return out; }
    void finish() const {}
};

// For a `ColumnSource`: groups of (dim, atoms), transposed at the end.
template <Real T>
class ColumnPointSums {
public:
    ColumnPointSums(const ColumnSource<T>& source, T* out, std::size_t groups)
        : atoms_(source.atoms),
          dim_(source.dim),
          groups_(groups),
          out_(out),
          sums_(std::make_unique<T[]>(groups * atoms_ * dim_)) {}

    T* target(std::size_t group) const { return sums_.get() + group * atoms_ * dim_; }
    void finish() const {
        add_groups(groups_, atoms_ * dim_, [this](std::size_t group) { return target(group); });
        transpose(sums_.get(), atoms_, dim_, atoms_, out_, dim_);
    }

private:
    std::size_t atoms_, dim_, groups_;
    T* out_;
    std::unique_ptr<T[]> sums_;
};

// For a `RowSource`: groups of (atoms, dim), the first in the output. Each begins with its first term, not with zeros.
template <Real T>
class RowPointSums {
public:
    RowPointSums(const RowSource<T>& source, T* out, std::size_t groups)
        : size_(source.atoms * source.dim),
          groups_(groups),
          out_(out),
          others_(std::make_unique_for_overwrite<T[]>((groups - 1) * size_)) {}

    T* target(std::size_t group) const { return group == 0 ? out_ : others_.get() + (group - 1) * size_; }
    void finish() const {
        add_groups(groups_, size_, [this](std::size_t group) { return target(group); });
    }

private:
    std::size_t size_, groups_;
    T* out_;
    std::unique_ptr<T[]> others_;
};

template <Real T>
SlicePointSums<T> point_sums(const TurnSource<T>&, T* out, std::size_t) {
    return {out};
}
template <Real T>
SlicePointSums<T> point_sums(const PlanarSource<T>&, T* out, std::size_t) {
    return {out};
}
template <Real T>
ColumnPointSums<T> point_sums(const ColumnSource<T>& source, T* out, std::size_t groups) {
    return {source, out, groups};
}
template <Real T>
RowPointSums<T> point_sums(const RowSource<T>& source, T* out, std::size_t groups) {
    return {source, out, groups};
}

static_assert(PointSums<SlicePointSums<float>, float> && PointSums<ColumnPointSums<float>, float> &&
              PointSums<RowPointSums<float>, float>);

// Sums of gradients in weights: groups of (atoms), or the output itself, zeroed, where slices are not summed.
class WeightSums {
public:
    WeightSums(double* out, std::size_t atoms, std::size_t groups, bool sums_slices)
        : out_(out), atoms_(atoms), groups_(groups) {
        if (sums_slices) sums_ = std::make_unique<double[]>(groups * atoms);
        else std::fill_n(out, groups * atoms, 0.0);
    }

    double* target(std::size_t group) const { return (sums_ ? sums_.get() : out_) + group * atoms_; }
    void finish() const {
        if (!sums_) return;
        add_groups(groups_, atoms_, [this](std::size_t group) { return target(group); });
        std::copy_n(sums_.get(), atoms_, out_);
    }

private:
    double* out_;
    std::size_t atoms_, groups_;
    std::unique_ptr<double[]> sums_;
};

// The sums of the gradients of one measure that are wanted.
template <Real T>
class GradientSums {
public:
    GradientSums(const SlicedMeasure<T>& x, GradientOutput<T> out, std::size_t groups) : share_(out.share) {
        if (out.data)
            points_.emplace(std::visit(
                [&](const auto& source) { return AnyPointSums(point_sums(source, out.data, groups)); }, x.source));
        if (out.weights) weights_.emplace(out.weights, x.atoms, groups, x.sums_slices());
    }

    // The backward pass of the l-th loaded slice, from its gradient in turns.
    void pull_back(SliceRun<T>& run, std::size_t l, std::size_t group, const T* dturn) const {
        if (points_) run.pull_back(l, dturn, share_, target(group));
    }

    // To be called after pull_back for all `count` slices of a run; accumulate for all runs but the first of a group.
    void end_run(SliceRun<T>& run, std::size_t count, std::size_t group, Accumulate accumulate) const {
        if (points_) run.end_gradient(count, target(group), accumulate);
    }

    // Where the gradient in weights is to be added; null where it is not wanted.
    double* weights(std::size_t group) const { return weights_ ? weights_->target(group) : nullptr; }
    double share() const { return share_; }

    void finish() const {
        if (points_) std::visit([](const auto& sums) { sums.finish(); }, *points_);
        if (weights_) weights_->finish();
    }

private:
    using AnyPointSums = std::variant<SlicePointSums<T>, ColumnPointSums<T>, RowPointSums<T>>;

    T* target(std::size_t group) const {
        return std::visit([=](const auto& sums) { return sums.target(group); }, *points_);
    }

    double share_;
    std::optional<AnyPointSums> points_;
    std::optional<WeightSums> weights_;
};

}  // namespace sphereot
