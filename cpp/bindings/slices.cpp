// Bindings of measures on great circles: their costs, cuts and gradients.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "bindings/arguments.hpp"
#include "slicing/slice_run.hpp"
#include "solvers/costs.hpp"
#include "solvers/gradients.hpp"
#include "solvers/permutations.hpp"
#include "solvers/resamples.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {
namespace {

using Weights = std::optional<Input<double, 2>>;  // (1, atoms) shared by all slices, or (slices, atoms)
using Output = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <Real T>
SlicedMeasure<T> sliced(AnySource<T> source, std::size_t slices, std::size_t atoms, std::size_t dim,
                        const Weights& weights) {
    require(slices > 0 && atoms > 0, "a measure needs at least one slice and one atom");
    require(atoms <= std::numeric_limits<std::uint32_t>::max(), "a measure may have at most 2^32 - 1 atoms");
    require(!weights || weights->shape(1) == atoms, "one weight per atom");
    require(!weights || weights->shape(0) == 1 || weights->shape(0) == slices, "weights for one or for all slices");
    return {source, slices, atoms, dim, weights ? weights->data() : nullptr, weights && weights->shape(0) > 1};
}

template <Real T>
SlicedMeasure<T> from_points(Input<T, 2> points, Input<T, 3> frames, Weights weights) {
    const std::size_t atoms = points.shape(1), dim = points.shape(0);
    require(frames.shape(1) == dim && frames.shape(2) == 2, "frames (slices, dim, 2) for points (dim, atoms)");
    return sliced<T>(ColumnSource<T>{atoms, dim, points.data(), frames.data()}, frames.shape(0), atoms, dim, weights);
}

template <Real T>
SlicedMeasure<T> from_rows(Input<T, 2> points, Input<T, 3> frames, Weights weights) {
    const std::size_t atoms = points.shape(0), dim = points.shape(1);
    require(dim >= 2, "planes in at least two dimensions");
    require(frames.shape(1) == dim && frames.shape(2) == 2, "frames (slices, dim, 2) for points (atoms, dim)");
    return sliced<T>(RowSource<T>{atoms, dim, points.data(), frames.data()}, frames.shape(0), atoms, dim, weights);
}

SlicedMeasure<float> from_rows_drawn(Input<float, 2> points, std::size_t slices, std::uint64_t seed, std::size_t first,
                                     Weights weights) {
    const std::size_t atoms = points.shape(0), dim = points.shape(1);
    require(dim >= 2, "planes in at least two dimensions");
    return sliced<float>(RowSource<float>{atoms, dim, points.data(), nullptr, {seed, first}}, slices, atoms, dim,
                         weights);
}

template <Real T>
SlicedMeasure<T> from_planar(Input<T, 3> planar, Weights weights) {
    require(planar.shape(1) == 2, "planar points (slices, 2, atoms)");
    const std::size_t atoms = planar.shape(2);
    return sliced<T>(PlanarSource<T>{atoms, planar.data()}, planar.shape(0), atoms, 2, weights);
}

template <Real T>
SlicedMeasure<T> from_turns(Input<T, 2> turns, Weights weights) {
    const std::size_t atoms = turns.shape(1);
    return sliced<T>(TurnSource<T>{atoms, turns.data()}, turns.shape(0), atoms, 1, weights);
}

// An array for a gradient, or None where it is not wanted. Its shape depends on the source of the measure.
template <Real T>
using Gradient = std::optional<nb::ndarray<T, nb::c_contig, nb::device::cpu>>;

template <Real T>
GradientOutput<T> gradient_output(const SlicedMeasure<T>& x, double share, const Gradient<T>& data,
                                  const Gradient<double>& weights) {
    const auto shape = std::visit([&](const auto& source) { return source.gradient_shape(x.slices); }, x.source);
    require(!data || has_shape(*data, shape),
            "gradient (atoms, dim) for points, (slices, 2, atoms) for planar points, (slices, atoms) for turns");
    require(!weights || x.weights, "a gradient in weights needs weights");
    if (x.sums_slices()) require(!weights || has_shape(*weights, {x.atoms}), "gradient (atoms)");
    else require(!weights || has_shape(*weights, {x.slices, x.atoms}), "gradient (slices, atoms)");
    return {data ? data->data() : nullptr, weights ? weights->data() : nullptr, share};
}

template <Real T>
void require_groups(const SlicedMeasure<T>& x, std::size_t groups) {
    require(groups >= 1 && groups <= x.slices, "between one group and one per slice");
    require(x.sums_slices() || groups == x.slices, "one group per slice of turns");
}

template <Real T>
Resamples resamples(const SlicedMeasure<T>& x, const Input<std::uint32_t, 2>& repeats, std::size_t size) {
    require(!x.weights, "resampled measures have no weights");
    require(repeats.shape(0) >= 1 && repeats.shape(1) == x.atoms, "repeats (resamples, atoms)");
    return {repeats.shape(0), x.atoms, size, repeats.data()};
}

template <Real T>
void bind(nb::module_& m, const char* name) {
    using Sliced = SlicedMeasure<T>;
    nb::class_<Sliced>(m, name, "The points of one measure on all slices.");
    // A measure keeps pointers to its arrays: they must live as long as it does, and must not be converted copies.
    m.def("from_points", &from_points<T>, "points"_a.noconvert(), "frames"_a.noconvert(),
          "weights"_a.noconvert().none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
    m.def("from_rows", &from_rows<T>, "points"_a.noconvert(), "frames"_a.noconvert(), "weights"_a.noconvert().none(),
          nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
    m.def("from_planar", &from_planar<T>, "planar"_a.noconvert(), "weights"_a.noconvert().none(),
          nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
    m.def("from_turns", &from_turns<T>, "turns"_a.noconvert(), "weights"_a.noconvert().none(), nb::keep_alive<0, 1>(),
          nb::keep_alive<0, 2>());

    m.def(
        "turns",
        [](const Sliced& measure, std::size_t threads, nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
            require(out.shape(0) == measure.slices && out.shape(1) == measure.atoms, "turns (slices, atoms)");
            T* turns = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            write_turns(measure, execution, turns);
        },
        "x"_a, "threads"_a, "out"_a);

    const auto solve = [](const Sliced& x, const Sliced& y, double p, std::size_t threads, Output out, auto answer) {
        require(x.slices == y.slices && out.shape(0) == x.slices, "equal numbers of slices");
        double* result = out.data();
        const Execution execution = execution_on(threads);
        const nb::gil_scoped_release unlocked;
        solve_slices(x, y, p, execution, result, answer);
    };
    m.def(
        "costs",
        [solve](const Sliced& x, const Sliced& y, double p, std::size_t threads, Output out) {
            solve(x, y, p, threads, out,
                  [](const auto& pairing, auto power) { return pairing.cost(pairing.cut(power), power); });
        },
        "x"_a, "y"_a, "p"_a, "threads"_a, "out"_a);
    m.def(
        "cuts",
        [solve](const Sliced& x, const Sliced& y, double p, std::size_t threads, Output out) {
            solve(x, y, p, threads, out, [](const auto& pairing, auto power) { return pairing.cut(power); });
        },
        "x"_a, "y"_a, "p"_a, "threads"_a, "out"_a);

    m.def(
        "costs_uniform",
        [](const Sliced& x, double p, std::size_t threads, Output out) {
            require(out.shape(0) == x.slices, "one cost per slice");
            double* result = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            solve_slices_uniform(x, p, execution, result);
        },
        "x"_a, "p"_a, "threads"_a, "out"_a);

    m.def(
        "differentiate",
        [](const Sliced& x, const Sliced& y, double p, double share, std::size_t groups, std::size_t threads,
           Output out, Gradient<T> dx, Gradient<double> da, Gradient<T> dy, Gradient<double> db) {
            require(x.slices == y.slices && out.shape(0) == x.slices, "equal numbers of slices");
            require_groups(x, groups);
            require_groups(y, groups);
            const auto out_x = gradient_output(x, share, dx, da);
            const auto out_y = gradient_output(y, share, dy, db);
            double* costs = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            differentiate_slices(x, y, p, groups, execution, costs, out_x, out_y);
        },
        "x"_a, "y"_a, "p"_a, "share"_a, "groups"_a, "threads"_a, "out"_a, "dx"_a.noconvert().none(),
        "da"_a.noconvert().none(), "dy"_a.noconvert().none(), "db"_a.noconvert().none());

    m.def(
        "differentiate_uniform",
        [](const Sliced& x, double p, double share, std::size_t groups, std::size_t threads, Output out, Gradient<T> dx,
           Gradient<double> da) {
            require(out.shape(0) == x.slices, "one cost per slice");
            require_groups(x, groups);
            const auto out_x = gradient_output(x, share, dx, da);
            double* costs = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            differentiate_slices_uniform(x, p, groups, execution, costs, out_x);
        },
        "x"_a, "p"_a, "share"_a, "groups"_a, "threads"_a, "out"_a, "dx"_a.noconvert().none(),
        "da"_a.noconvert().none());

    m.def(
        "costs_pairwise",
        [](const std::vector<const Sliced*>& measures, double p, std::size_t threads,
           nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
            require(measures.size() >= 2, "at least two measures");
            std::vector<Sliced> sliced;
            for (const auto* measure : measures) sliced.push_back(*measure);
            for (const auto& measure : sliced) require(measure.slices == out.shape(0), "equal numbers of slices");
            require(out.shape(1) == sliced.size() * (sliced.size() - 1) / 2, "one column per pair");
            double* result = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            solve_slices_pairwise(sliced, p, execution, result);
        },
        "measures"_a, "p"_a, "threads"_a, "out"_a);

    m.def(
        "costs_relabeled",
        [](const Sliced& pool, std::size_t first, Input<std::uint8_t, 2> labels, double p, std::size_t threads,
           nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
            const Labelings labelings{out.shape(1), pool.atoms, first, labels.data()};
            require(!pool.weights, "a pool has no weights");
            require(first >= 1 && first < pool.atoms, "points in both samples");
            require(out.shape(0) == pool.slices && labelings.count >= 1, "one row per slice, one column per labeling");
            require(labels.shape(0) == labelings.groups() && labels.shape(1) == pool.atoms,
                    "labels (groups of 8, atoms)");
            double* result = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            require(labelings.have_valid_sizes(), "each labeling needs `first` points in the first sample");
            solve_slices_relabeled(pool, labelings, p, execution, result);
        },
        "pool"_a, "first"_a, "labels"_a.noconvert(), "p"_a, "threads"_a, "out"_a);

    m.def(
        "costs_resampled",
        [](const Sliced& x, Input<std::uint32_t, 2> repeats_x, std::size_t size_x, const Sliced& y,
           Input<std::uint32_t, 2> repeats_y, std::size_t size_y, double p, std::size_t threads, InOut<double, 2> out) {
            const auto of_x = resamples(x, repeats_x, size_x), of_y = resamples(y, repeats_y, size_y);
            require(x.slices == y.slices && of_x.count == of_y.count, "equal numbers of slices and resamples");
            require(out.shape(0) == x.slices && out.shape(1) == of_x.count,
                    "one row per slice, one column per resample");
            double* result = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            require(of_x.have_valid_sizes() && of_y.have_valid_sizes(), "resamples of the given sizes");
            solve_slices_resampled(x, of_x, y, of_y, p, execution, result);
        },
        "x"_a, "repeats_x"_a.noconvert(), "size_x"_a, "y"_a, "repeats_y"_a.noconvert(), "size_y"_a, "p"_a, "threads"_a,
        "out"_a);
    m.def(
        "costs_uniform_resampled",
        [](const Sliced& x, Input<std::uint32_t, 2> repeats_x, std::size_t size_x, double p, std::size_t threads,
           InOut<double, 2> out) {
            const auto of_x = resamples(x, repeats_x, size_x);
            require(out.shape(0) == x.slices && out.shape(1) == of_x.count,
                    "one row per slice, one column per resample");
            double* result = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            require(of_x.have_valid_sizes(), "resamples of the given size");
            solve_slices_uniform_resampled(x, of_x, p, execution, result);
        },
        "x"_a, "repeats_x"_a.noconvert(), "size_x"_a, "p"_a, "threads"_a, "out"_a);
}

}  // namespace

void bind_slices(nb::module_& m) {
    bind<float>(m, "Sliced32");
    bind<double>(m, "Sliced64");
    m.def("from_rows_drawn", &from_rows_drawn, "points"_a.noconvert(), "slices"_a, "seed"_a, "first"_a,
          "weights"_a.noconvert().none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 5>());
}

}  // namespace sphereot
