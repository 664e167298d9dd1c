// Bindings of sketches: counting points, and distances between histograms.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "bindings/arguments.hpp"
#include "sketch/bin_counts.hpp"
#include "sketch/histogram.hpp"
#include "sketch/level_distance.hpp"
#include "sketch/transport.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {
namespace {

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

}  // namespace

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
        [](const Histogram& x, const Histogram* y, double p, std::size_t threads, InOut<double, 2> out) {
            require(!y || (y->bins == x.bins && y->slices == x.slices), "equal numbers of bins and slices");
            require(has_shape(out, {4, x.slices}), "four rows of numbers per slice");
            double* rows = out.data();
            const Execution execution = execution_on(threads);
            const nb::gil_scoped_release unlocked;
            transport_distances(x, y, p, execution, {rows, rows + x.slices, rows + 2 * x.slices, rows + 3 * x.slices});
        },
        "x"_a, "y"_a.none(), "p"_a, "threads"_a, "out"_a.noconvert());
}

}  // namespace sphereot
