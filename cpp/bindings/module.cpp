// The Python module: points, frames, pairs and flows here, slices and sketches in their files. Only the bindings know
// Python; they check shapes and pass plain pointers on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/arguments.hpp"
#include "expmap/flow.hpp"
#include "slicing/frames.hpp"
#include "slicing/transpose.hpp"
#include "slicing/unit_length.hpp"
#include "solvers/uniform_pairs.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {
namespace {

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
           Input<double, 1> logarithmic, double even_weight, std::size_t groups, std::size_t threads,
           std::optional<InOut<T, 2>> gradient, std::optional<InOut<double, 1>> potentials) {
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
            kernel.even_weight = as_real(even_weight);
            const EnergyResult<T> result{potentials ? potentials->data() : nullptr,
                                         gradient ? gradient->data() : nullptr};
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            const std::vector<T> unit = unit_points(n, dim, points.data());
            return sum_pairs<T>({n, dim, unit.data(), weights ? weights->data() : nullptr, kernel}, result, groups,
                                execution);
        },
        "points"_a.noconvert(), "weights"_a.noconvert().none(), "smooth"_a.noconvert(), "logarithmic"_a.noconvert(),
        "even_weight"_a, "groups"_a, "threads"_a, "gradient"_a.noconvert().none(), "potentials"_a.noconvert().none());
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
}  // namespace sphereot

NB_MODULE(SPHEREOT_MODULE, m) {
    using namespace sphereot;
    m.doc() = "The compiled kernel of sphereot: exact optimal transport on great circles.";
    m.def("supported_instruction_sets", [] {
        nb::list names;
        for (const auto& name : supported_instruction_sets()) names.append(name.c_str());
        return names;
    });
    bind_slices(m);
    bind_frames(m);
    bind_points<float>(m);
    bind_points<double>(m);
    bind_flow<float>(m);
    bind_flow<double>(m);
    bind_pairs<float>(m);
    bind_pairs<double>(m);
    bind_sketches(m);
}
