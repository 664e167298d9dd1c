// Python bindings: the only file that knows Python. It checks shapes and passes plain pointers on.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "expmap/flow.hpp"
#include "sketch/bin_counts.hpp"
#include "sketch/histogram.hpp"
#include "sketch/level_distance.hpp"
#include "sketch/transport.hpp"
#include "slicing/frames.hpp"
#include "slicing/slice_run.hpp"
#include "slicing/transpose.hpp"
#include "slicing/unit_length.hpp"
#include "solvers/costs.hpp"
#include "solvers/gradients.hpp"
#include "solvers/permutations.hpp"
#include "solvers/resamples.hpp"
#include "solvers/uniform_pairs.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sphereot;

namespace {

template <class T, int dims>
using Input = nb::ndarray<const T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;
using Weights = std::optional<Input<double, 2>>;  // (1, atoms) shared by all slices, or (slices, atoms)
using Output = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T, int dims>
using InOut = nb::ndarray<T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

// Called regularly on the main thread during long calls: runs Python's signal handlers, so that Ctrl-C raises.
void check_signals() {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Only the main thread checks for signals. Other threads do not get any, and must not acquire the interpreter's lock
// during a call: while the interpreter shuts down this would block or end them.
Execution execution_on(std::size_t threads) {
    const nb::object main_thread = nb::module_::import_("threading").attr("main_thread")();
    const bool on_main = nb::cast<unsigned long>(main_thread.attr("ident")) == PyThread_get_thread_ident();
    return {threads, on_main ? check_signals : nullptr};
}

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

template <class Array>
bool has_shape(const Array& array, const std::vector<std::size_t>& shape) {
    bool same = array.ndim() == shape.size();
    for (std::size_t i = 0; same && i < shape.size(); ++i) same = array.shape(i) == shape[i];
    return same;
}

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

void require_unit(double p, double unit) {
    require(unit > 0.0 && (unit == 1.0 || p > largest_plain_order), "a unit of length is for large orders only");
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
        [solve](const Sliced& x, const Sliced& y, double p, std::size_t threads, Output out, bool root) {
            solve(x, y, p, threads, out, [options = CostOptions{p, root}](const auto& pairing, auto power) {
                return options.value(pairing.cost(pairing.cut(power), power));
            });
        },
        "x"_a, "y"_a, "p"_a, "threads"_a, "out"_a, "root"_a = false);
    m.def(
        "cuts",
        [solve](const Sliced& x, const Sliced& y, double p, std::size_t threads, Output out) {
            solve(x, y, p, threads, out, [](const auto& pairing, auto power) { return pairing.cut(power); });
        },
        "x"_a, "y"_a, "p"_a, "threads"_a, "out"_a);

    m.def(
        "costs_uniform",
        [](const Sliced& x, double p, std::size_t threads, Output out, bool root) {
            require(out.shape(0) == x.slices, "one cost per slice");
            double* result = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            solve_slices_uniform(x, {p, root}, execution, result);
        },
        "x"_a, "p"_a, "threads"_a, "out"_a, "root"_a = false);

    m.def(
        "differentiate",
        [](const Sliced& x, const Sliced& y, double p, double share, std::size_t groups, std::size_t threads,
           Output out, Gradient<T> dx, Gradient<double> da, Gradient<T> dy, Gradient<double> db, double unit) {
            require(x.slices == y.slices && out.shape(0) == x.slices, "equal numbers of slices");
            require_groups(x, groups);
            require_groups(y, groups);
            const auto out_x = gradient_output(x, share, dx, da);
            const auto out_y = gradient_output(y, share, dy, db);
            require_unit(p, unit);
            double* costs = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            differentiate_slices(x, y, {p, unit}, groups, execution, costs, out_x, out_y);
        },
        "x"_a, "y"_a, "p"_a, "share"_a, "groups"_a, "threads"_a, "out"_a, "dx"_a.noconvert().none(),
        "da"_a.noconvert().none(), "dy"_a.noconvert().none(), "db"_a.noconvert().none(), "unit"_a = 1.0);

    m.def(
        "differentiate_uniform",
        [](const Sliced& x, double p, double share, std::size_t groups, std::size_t threads, Output out, Gradient<T> dx,
           Gradient<double> da, double unit) {
            require(out.shape(0) == x.slices, "one cost per slice");
            require_groups(x, groups);
            const auto out_x = gradient_output(x, share, dx, da);
            require_unit(p, unit);
            double* costs = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            differentiate_slices_uniform(x, {p, unit}, groups, execution, costs, out_x);
        },
        "x"_a, "p"_a, "share"_a, "groups"_a, "threads"_a, "out"_a, "dx"_a.noconvert().none(), "da"_a.noconvert().none(),
        "unit"_a = 1.0);

    m.def(
        "costs_pairwise",
        [](const std::vector<const Sliced*>& measures, double p, std::size_t threads,
           nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, bool root) {
            require(measures.size() >= 2, "at least two measures");
            std::vector<Sliced> sliced;
            for (const auto* measure : measures) sliced.push_back(*measure);
            for (const auto& measure : sliced) require(measure.slices == out.shape(0), "equal numbers of slices");
            require(out.shape(1) == sliced.size() * (sliced.size() - 1) / 2, "one column per pair");
            double* result = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            solve_slices_pairwise(sliced, {p, root}, execution, result);
        },
        "measures"_a, "p"_a, "threads"_a, "out"_a, "root"_a = false);

    m.def(
        "costs_relabeled",
        [](const Sliced& pool, std::size_t first, Input<std::uint8_t, 2> labels, double p, std::size_t threads,
           nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, bool root) {
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
            solve_slices_relabeled(pool, labelings, {p, root}, execution, result);
        },
        "pool"_a, "first"_a, "labels"_a.noconvert(), "p"_a, "threads"_a, "out"_a, "root"_a = false);

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
            solve_slices_resampled(x, of_x, y, of_y, {p, false}, execution, result);
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
            solve_slices_uniform_resampled(x, of_x, {p, false}, execution, result);
        },
        "x"_a, "repeats_x"_a.noconvert(), "size_x"_a, "p"_a, "threads"_a, "out"_a);
}

template <Real T>
void bind_points(nb::module_& m) {
    m.def(
        "have_unit_length",
        [](Input<T, 2> points, double tolerance) {
            const nb::gil_scoped_release unlocked;
            return have_unit_length(points.data(), points.shape(0), points.shape(1), tolerance);
        },
        "points"_a.noconvert(), "tolerance"_a);

    m.def(
        "transpose",
        [](Input<T, 2> in, InOut<T, 2> out) {
            require(out.shape(0) == in.shape(1) && out.shape(1) == in.shape(0), "the transposed shape");
            const nb::gil_scoped_release unlocked;
            transpose(in.data(), in.shape(1), in.shape(0), in.shape(1), out.data(), in.shape(0));
        },
        "in"_a.noconvert(), "out"_a.noconvert());
}

void bind_frames(nb::module_& m) {
    m.def(
        "random_frames",
        [](std::uint64_t seed, std::size_t first, InOut<float, 3> frames, std::size_t threads) {
            require(frames.shape(1) >= 2 && frames.shape(2) == 2, "frames (planes, dim, 2)");
            const std::size_t dim = frames.shape(1);
            float* out = frames.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            draw_frames({seed, first}, frames.shape(0), dim, execution, out);
        },
        "seed"_a, "first"_a, "frames"_a.noconvert(), "threads"_a);
}

template <Real T>
FlowParameters<T> flow_parameters(const Input<T, 3>& slopes, const Input<T, 3>& loads, std::size_t points) {
    require(slopes.shape(2) == 4 && (loads.shape(2) == 3 || loads.shape(2) == 12),
            "slopes of 4 numbers, loads of 3 or 12");
    require(slopes.shape(0) == loads.shape(0) && slopes.shape(1) == loads.shape(1),
            "slopes and loads for each component");
    require(points > 0, "at least one point");
    return {slopes.shape(0), slopes.shape(1), points, slopes.data(), loads.data()};
}

// Determinants are given if the loads have the columns for them.
template <Real T>
FlowRecord<T> flow_record(const FlowParameters<T>& flow, bool hessian, const InOut<T, 3>& states,
                          const InOut<T, 3>& moments, const std::optional<InOut<T, 2>>& determinants) {
    require(states.shape(0) == flow.blocks + 1 && states.shape(1) == 3, "states (blocks + 1, 3, points)");
    require(moments.shape(0) == flow.blocks && moments.shape(1) == (hessian ? 9 : 3) && moments.shape(2) == flow.points,
            "moments (blocks, 3 or 9, points)");
    require(hessian == determinants.has_value(), "determinants if loads have 12 numbers");
    require(!determinants || (determinants->shape(0) == flow.blocks && determinants->shape(1) == flow.points),
            "determinants (blocks, points)");
    return {states.data(), moments.data(), determinants ? determinants->data() : nullptr};
}

template <Real T>
void bind_flow(nb::module_& m) {
    m.def(
        "flow_forward",
        [](Input<T, 3> slopes, Input<T, 3> loads, InOut<T, 3> states, InOut<T, 3> moments,
           std::optional<InOut<T, 2>> determinants, std::size_t threads) {
            const auto flow = flow_parameters<T>(slopes, loads, states.shape(2));
            const auto record = flow_record<T>(flow, loads.shape(2) == 12, states, moments, determinants);
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            flow_forward(flow, record, execution);
        },
        "slopes"_a.noconvert(), "loads"_a.noconvert(), "states"_a.noconvert(), "moments"_a.noconvert(),
        "determinants"_a.noconvert().none(), "threads"_a);

    m.def(
        "flow_backward",
        [](Input<T, 3> slopes, Input<T, 3> loads, InOut<T, 3> states, InOut<T, 3> moments,
           std::optional<InOut<T, 2>> determinants, Input<T, 2> d_y, std::optional<Input<T, 1>> d_log_det,
           InOut<T, 2> d_x, InOut<T, 4> d_slopes, InOut<T, 4> d_loads, std::size_t threads) {
            const auto flow = flow_parameters<T>(slopes, loads, states.shape(2));
            const auto record = flow_record<T>(flow, loads.shape(2) == 12, states, moments, determinants);
            const auto as_points = [&](const auto& array) {
                return array.shape(0) == 3 && array.shape(1) == flow.points;
            };
            require(as_points(d_y) && as_points(d_x), "cotangents (3, points)");
            require(d_log_det.has_value() == determinants.has_value(),
                    "cotangents of determinants if there are determinants");
            require(!d_log_det || d_log_det->shape(0) == flow.points, "one cotangent per point");
            const auto like = [&](const auto& gradient, const auto& of) {
                return gradient.shape(1) == of.shape(0) && gradient.shape(2) == of.shape(1) &&
                       gradient.shape(3) == of.shape(2);
            };
            require(like(d_slopes, slopes) && like(d_loads, loads), "gradients (groups, blocks, components, ...)");
            require(d_slopes.shape(0) >= 1 && d_slopes.shape(0) == d_loads.shape(0), "equal numbers of groups");
            const FlowGradient<T> out{d_slopes.shape(0), d_x.data(), d_slopes.data(), d_loads.data()};
            const T* log_det = d_log_det ? d_log_det->data() : nullptr;
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            flow_backward(flow, record, d_y.data(), log_det, out, execution);
        },
        "slopes"_a.noconvert(), "loads"_a.noconvert(), "states"_a.noconvert(), "moments"_a.noconvert(),
        "determinants"_a.noconvert().none(), "d_y"_a.noconvert(), "d_log_det"_a.noconvert().none(), "d_x"_a.noconvert(),
        "d_slopes"_a.noconvert(), "d_loads"_a.noconvert(), "threads"_a);
}

template <Real T>
void bind_pairs(nb::module_& m) {
    m.def(
        "sum_pairs",
        [](Input<T, 2> points, std::optional<Input<double, 1>> weights, Input<double, 1> smooth,
           Input<double, 1> logarithmic, std::size_t groups, std::size_t threads, std::optional<InOut<T, 2>> gradient,
           std::optional<InOut<double, 1>> potentials) {
            const std::size_t n = points.shape(0), dim = points.shape(1);
            UniformKernel<T> kernel;
            require(n > 0 && dim >= 2 && groups > 0, "at least one point, two dimensions and one group");
            require(smooth.shape(0) == kernel.smooth.size() && logarithmic.shape(0) == kernel.logarithmic.size(),
                    "as many coefficients as the kernel has");
            require(!weights || weights->shape(0) == n, "one weight per point");
            require(!gradient || (gradient->shape(0) == n && gradient->shape(1) == dim), "gradient (n, dim)");
            require(!potentials || potentials->shape(0) == n, "one potential per point");
            const auto as_real = [](double value) { return static_cast<T>(value); };
            std::transform(smooth.data(), smooth.data() + smooth.shape(0), kernel.smooth.begin(), as_real);
            std::transform(logarithmic.data(), logarithmic.data() + logarithmic.shape(0), kernel.logarithmic.begin(),
                           as_real);
            const EnergyResult<T> result{potentials ? potentials->data() : nullptr,
                                         gradient ? gradient->data() : nullptr};
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            const std::vector<T> unit = unit_points(n, dim, points.data());
            return sum_pairs<T>({n, dim, unit.data(), weights ? weights->data() : nullptr, kernel}, result, groups,
                                execution);
        },
        "points"_a.noconvert(), "weights"_a.noconvert().none(), "smooth"_a.noconvert(), "logarithmic"_a.noconvert(),
        "groups"_a, "threads"_a, "gradient"_a.noconvert().none(), "potentials"_a.noconvert().none());
}

// ---- sketches ----

using CountArray = InOut<std::uint64_t, 3>;  // (limbs, slices, bins): one limb without weights, two with them
using Limbs = std::optional<Input<std::uint64_t, 1>>;

template <Real T>
void bind_counting(nb::module_& m) {
    m.def(
        "count_points",
        [](Input<T, 2> points, Input<double, 3> frames, Limbs high, Limbs low, std::vector<float> near_squares,
           std::size_t threads, CountArray mass, CountArray moment, CountArray near) {
            const std::size_t n = points.shape(0), dim = points.shape(1), slices = frames.shape(0);
            const std::size_t limbs = high ? 2 : 1, bins = mass.shape(2);
            require(frames.shape(1) == dim && frames.shape(2) == 2, "frames (slices, dim, 2) for points (n, dim)");
            require(high.has_value() == low.has_value(), "two limbs of weights, or none");
            require(!high || (high->shape(0) == n && low->shape(0) == n), "one weight per point");
            require(has_shape(mass, {limbs, slices, bins}) && has_shape(moment, {limbs, slices, bins}) &&
                        has_shape(near, {limbs, slices, near_count}) && near_squares.size() == near_count,
                    "counts (limbs, slices, bins) and (limbs, slices, 3)");
            require(n > 0 && dim >= 2, "at least one point, in at least two dimensions");
            require(bins > 0 && bins <= std::size_t{1} << 14, "between 1 and 2^14 bins");
            NearSquares squares;
            std::copy(near_squares.begin(), near_squares.end(), squares.begin());
            const BinCounts counts{slices, bins, mass.data(), moment.data(), near.data()};
            const CountedPoints<T> counted{n, dim, points.data(), high ? high->data() : nullptr,
                                           low ? low->data() : nullptr};
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            count_points(counted, frames.data(), squares, counts, execution);
        },
        "points"_a.noconvert(), "frames"_a.noconvert(), "weights_high"_a.noconvert().none(),
        "weights_low"_a.noconvert().none(), "near_squares"_a, "threads"_a, "mass"_a.noconvert(), "moment"_a.noconvert(),
        "near"_a.noconvert());
}

template <class Cell>
Histogram histogram(Input<Cell, 2> mass, Input<Cell, 2> moment) {
    require(mass.shape(0) > 0 && mass.shape(1) > 0, "at least one slice and one bin");
    require(moment.shape(0) == mass.shape(0) && moment.shape(1) == mass.shape(1), "moments (slices, bins)");
    if constexpr (std::is_same_v<Cell, double>)
        return {mass.shape(0), mass.shape(1), nullptr, nullptr, mass.data(), moment.data()};
    else return {mass.shape(0), mass.shape(1), mass.data(), moment.data(), nullptr, nullptr};
}

void bind_sketches(nb::module_& m) {
    bind_counting<float>(m);
    bind_counting<double>(m);
    nb::class_<Histogram>(m, "Histogram", "The bins of one measure on all slices.");
    m.def("histogram", &histogram<std::uint64_t>, "mass"_a.noconvert(), "moment"_a.noconvert(), nb::keep_alive<0, 1>(),
          nb::keep_alive<0, 2>());
    m.def("histogram", &histogram<double>, "mass"_a.noconvert(), "moment"_a.noconvert(), nb::keep_alive<0, 1>(),
          nb::keep_alive<0, 2>());
    m.def(
        "level_distances",
        [](const std::vector<const Histogram*>& measures, std::size_t first, std::size_t threads, InOut<double, 2> cost,
           InOut<double, 2> excess) {
            require(!measures.empty(), "at least one measure");
            const std::size_t slices = cost.shape(0), count = std::max<std::size_t>(measures.size(), 2);
            std::vector<Histogram> parts;
            for (const auto* measure : measures) {
                require(measure->bins == measures.front()->bins && first + slices <= measure->slices,
                        "equal numbers of bins and slices");
                parts.push_back(measure->from_slice(first, slices));
            }
            require(slices > 0 && has_shape(cost, {slices, count * (count - 1) / 2}) &&
                        has_shape(excess, {slices, count * (count - 1) / 2}),
                    "one row per slice, one column per pair");
            double *costs = cost.data(), *excesses = excess.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            level_distances(parts, execution, costs, excesses);
        },
        "measures"_a, "first"_a, "threads"_a, "cost"_a.noconvert(), "excess"_a.noconvert());
    m.def(
        "transport_distances",
        [](const Histogram& x, const Histogram* y, double p, bool root, std::size_t threads, InOut<double, 2> out) {
            require(!y || (y->bins == x.bins && y->slices == x.slices), "equal numbers of bins and slices");
            require(has_shape(out, {4, x.slices}), "four rows of numbers per slice");
            double* rows = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            transport_distances(x, y, {p, root}, execution,
                                {rows, rows + x.slices, rows + 2 * x.slices, rows + 3 * x.slices});
        },
        "x"_a, "y"_a.none(), "p"_a, "root"_a, "threads"_a, "out"_a.noconvert());
}

// The instruction sets whose build of the kernel this machine can run, best first.
std::vector<std::string> supported_instruction_sets() {
    std::vector<std::string> names;
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        names.emplace_back("avx512");
    if (avx2) names.emplace_back("avx2");
#endif
    names.emplace_back("baseline");
    return names;
}

}  // namespace

NB_MODULE(SPHEREOT_MODULE, m) {
    m.doc() = "The compiled kernel of sphereot: exact optimal transport on great circles.";
    m.def("supported_instruction_sets", [] {
        nb::list names;
        for (const auto& name : supported_instruction_sets()) names.append(name.c_str());
        return names;
    });
    bind<float>(m, "Sliced32");
    bind<double>(m, "Sliced64");
    m.def("from_rows_drawn", &from_rows_drawn, "points"_a.noconvert(), "slices"_a, "seed"_a, "first"_a,
          "weights"_a.noconvert().none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 5>());
    bind_frames(m);
    bind_points<float>(m);
    bind_points<double>(m);
    bind_flow<float>(m);
    bind_flow<double>(m);
    bind_pairs<float>(m);
    bind_pairs<double>(m);
    bind_sketches(m);
}
