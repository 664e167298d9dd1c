// The exponential-map flow on S^2 (Appendix B.4), all blocks in one pass: a run of points stays in the L1 cache while
// it goes through the blocks, and the exponentials, one per point and component, are not stored.
//
// A component has slopes (beta mu, -beta) and loads (alpha mu, and alpha beta mu mu^T). It adds exp(<slope, (x, 1)>)
// times its loads to the moments of its block: the gradient g and, where determinants are wanted, the Hessian H.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <vector>

#include "expmap/block.hpp"
#include "support/compiler.hpp"
#include "support/exp.hpp"
#include "support/lanes.hpp"
#include "support/parallel.hpp"
#include "support/real.hpp"

namespace sphereot {

// The parameters of the flow and the number of points. It does not own the memory.
template <Real T>
struct FlowParameters {
    std::size_t blocks, components, points;
    const T* slopes;  // (blocks, components, 4)
    const T* loads;   // (blocks, components, 3), or 12 with the Hessian's nine
};

// What the forward pass stores for the backward pass.
template <Real T>
struct FlowRecord {
    T* states;        // (blocks + 1, 3, points): the input of each block, and the images
    T* moments;       // (blocks, 3, points), or 9 with the Hessian's six
    T* determinants;  // (blocks, points), or null
};

// Gradients, summed over groups of points. One task sums each group in order, so that results do not depend on the
// number of threads.
template <Real T>
struct FlowGradient {
    std::size_t groups;
    T* points;  // (3, points)
    T* slopes;  // (groups, blocks, components, 4)
    T* loads;   // (groups, blocks, components, 3 or 12); the Hessian's upper half, the lower one is not written
};

namespace flow {

constexpr std::size_t run_size = 256;  // points that go through the blocks together; _RUN in Python
constexpr std::size_t cache_line = 64;

// The column of loads for a row of moments: the gradient, and the upper half of the Hessian.
constexpr std::size_t load_column(std::size_t row) {
    constexpr std::size_t column[9] = {0, 1, 2, 3, 4, 5, 7, 8, 11};
    return column[row];
}

template <bool with_determinant>
constexpr std::size_t rows = with_determinant ? 9 : 3;
template <bool with_determinant>
constexpr std::size_t columns = with_determinant ? 12 : 3;

// `height` numbers for each point of a run.
template <Real T, std::size_t height>
struct alignas(cache_line) RunRows {
    T at[height][run_size];

    // Reads `count` columns, and fills the others with `rest`: loops go over whole runs, and these change no sum.
    void read(const T* from, std::size_t stride, std::size_t count, const T (&rest)[height]) {
        for (std::size_t r = 0; r < height; ++r) {
            std::copy_n(from + r * stride, count, at[r]);
            std::fill(at[r] + count, at[r] + run_size, rest[r]);
        }
    }
    void write(T* to, std::size_t stride, std::size_t count) const {
        for (std::size_t r = 0; r < height; ++r) std::copy_n(at[r], count, to + r * stride);
    }
    Vector3<T> vector(std::size_t i) const { return {at[0][i], at[1][i], at[2][i]}; }
    void set_vector(std::size_t i, Vector3<T> v) {
        at[0][i] = v.x;
        at[1][i] = v.y;
        at[2][i] = v.z;
    }
    Symmetric3<T> matrix(std::size_t i) const {
        if constexpr (height == 9) return {at[3][i], at[4][i], at[5][i], at[6][i], at[7][i], at[8][i]};
        else return {};
    }
};

template <Real T>
constexpr T pole[3] = {T(0), T(0), T(1)};  // fills the columns without a point

// The parameters with slopes times log2_e: powers of two take fewer operations than those of e.
template <Real T>
struct ScaledParameters : FlowParameters<T> {
    std::vector<T> exponents;  // (blocks, components, 4)

    explicit ScaledParameters(const FlowParameters<T>& flow)
        : FlowParameters<T>(flow), exponents(flow.slopes, flow.slopes + flow.blocks * flow.components * 4) {
        for (T& exponent : exponents) {
            exponent *= T(log2_e);
            if (std::isnan(exponent))
                exponent = std::numeric_limits<T>::quiet_NaN();  // with bits that powers_of_two keeps
        }
    }
};

// Registers of points that are computed side by side (see `powers_of_two`), as many as the sums leave room for.
template <bool with_determinant>
constexpr std::size_t tile = with_determinant ? 1 : 2;

template <Real T, std::size_t height>
using Tile = Lanes<T>[height];

// Reads the registers that start at a number of a row.
template <Real T, std::size_t height>
SPHEREOT_INLINE void read_tile(const T* row, Tile<T, height>& to) {
    for (std::size_t v = 0; v < height; ++v) to[v] = Lanes<T>::read(row + v * Lanes<T>::count);
}

// exp(<slope, (x, 1)>) of a component, with its slope times log2_e.
template <Real T, std::size_t height>
SPHEREOT_INLINE void powers(const T* slope, const Tile<T, height> (&x)[3], Tile<T, height>& power) {
    for (std::size_t v = 0; v < height; ++v) power[v] = multiply_add(slope[2], x[2][v], slope[3]);
    for (std::size_t v = 0; v < height; ++v) power[v].add_multiple(slope[1], x[1][v]);
    for (std::size_t v = 0; v < height; ++v) power[v].add_multiple(slope[0], x[0][v]);
    powers_of_two(power);
}

// The moments of a block at a run of points.
template <Real T, bool with_determinant>
RunRows<T, rows<with_determinant>> moments(const ScaledParameters<T>& flow, std::size_t block, const RunRows<T, 3>& x) {
    constexpr std::size_t height = tile<with_determinant>, step = height * Lanes<T>::count;
    RunRows<T, rows<with_determinant>> block_moments;
    for (std::size_t i = 0; i < run_size; i += step) {
        Tile<T, height> point[3], sums[rows<with_determinant>] = {};
        for (std::size_t j = 0; j < 3; ++j) read_tile(x.at[j] + i, point[j]);
        for (std::size_t k = block * flow.components; k < (block + 1) * flow.components; ++k) {
            const T* load = flow.loads + columns<with_determinant> * k;
            Tile<T, height> power;
            powers(flow.exponents.data() + 4 * k, point, power);
            for (std::size_t r = 0; r < rows<with_determinant>; ++r) {
                const T factor = load[load_column(r)];
                for (std::size_t v = 0; v < height; ++v) sums[r][v].add_multiple(factor, power[v]);
            }
        }
        for (std::size_t r = 0; r < rows<with_determinant>; ++r)
            for (std::size_t v = 0; v < height; ++v) sums[r][v].write(block_moments.at[r] + i + v * Lanes<T>::count);
    }
    return block_moments;
}

// Moves the points [begin, begin + count) through all blocks.
template <Real T, bool with_determinant>
void forward_run(const ScaledParameters<T>& flow, const FlowRecord<T>& record, std::size_t begin, std::size_t count) {
    const std::size_t n = flow.points;
    RunRows<T, 3> x;
    x.read(record.states + begin, n, count, pole<T>);
    alignas(cache_line) T determinant[run_size];
    for (std::size_t block = 0; block < flow.blocks; ++block) {
        const auto block_moments = moments<T, with_determinant>(flow, block, x);
        for (std::size_t i = 0; i < run_size; ++i) {
            const Vector3<T> point = x.vector(i);
            const ExpMapStep<T> step(point, block_moments.vector(i));
            if constexpr (with_determinant)
                determinant[i] = ExpMapDeterminant<T>(step, point, block_moments.matrix(i)).value;
            x.set_vector(i, step.y);
        }
        block_moments.write(record.moments + block * rows<with_determinant> * n + begin, n, count);
        if constexpr (with_determinant) std::copy_n(determinant, count, record.determinants + block * n + begin);
        x.write(record.states + (block + 1) * 3 * n + begin, n, count);
    }
}

// Adds the gradients of the parameters of component k, and its part of the gradient of the points.
template <Real T, bool with_determinant>
void component_backward(const ScaledParameters<T>& flow, std::size_t k, const RunRows<T, 3>& x,
                        const RunRows<T, rows<with_determinant>>& d, RunRows<T, 3>& d_x, T* d_slope, T* d_load) {
    constexpr std::size_t height = tile<with_determinant>, count = Lanes<T>::count;
    // Copies: what is written to d_x could, for all that the compiler knows, change the parameters.
    T exponent[4], slope[3], load[rows<with_determinant>];
    std::copy_n(flow.exponents.data() + 4 * k, 4, exponent);
    std::copy_n(flow.slopes + 4 * k, 3, slope);
    for (std::size_t r = 0; r < rows<with_determinant>; ++r)
        load[r] = flow.loads[columns<with_determinant> * k + load_column(r)];
    Lanes<T> slope_sums[4] = {}, load_sums[rows<with_determinant>] = {};
    for (std::size_t i = 0; i < run_size; i += height * count) {
        Tile<T, height> point[3], power, d_exponent;
        for (std::size_t j = 0; j < 3; ++j) read_tile(x.at[j] + i, point[j]);
        powers(exponent, point, power);
        for (std::size_t r = 0; r < rows<with_determinant>; ++r) {
            Tile<T, height> d_moment;
            read_tile(d.at[r] + i, d_moment);
            for (std::size_t v = 0; v < height; ++v) {
                if (r == 0) d_exponent[v] = load[r] * d_moment[v];
                else d_exponent[v].add_multiple(load[r], d_moment[v]);
                load_sums[r].add_product(power[v], d_moment[v]);
            }
        }
        for (std::size_t v = 0; v < height; ++v) d_exponent[v] = d_exponent[v] * power[v];
        for (std::size_t j = 0; j < 3; ++j)
            for (std::size_t v = 0; v < height; ++v) {
                slope_sums[j].add_product(d_exponent[v], point[j][v]);
                T* d_point = d_x.at[j] + i + v * count;
                Lanes<T> sum = Lanes<T>::read(d_point);
                sum.add_multiple(slope[j], d_exponent[v]);
                sum.write(d_point);
            }
        for (std::size_t v = 0; v < height; ++v) slope_sums[3] = slope_sums[3] + d_exponent[v];
    }
    for (std::size_t j = 0; j < 4; ++j) d_slope[j] += slope_sums[j].sum();
    for (std::size_t r = 0; r < rows<with_determinant>; ++r) d_load[load_column(r)] += load_sums[r].sum();
}

// The backward pass of the points [begin, begin + count), which belong to one group.
template <Real T, bool with_determinant>
void backward_run(const ScaledParameters<T>& flow, const FlowRecord<T>& record, const T* d_y, const T* d_log_det,
                  const FlowGradient<T>& out, std::size_t group, std::size_t begin, std::size_t count) {
    constexpr std::size_t height = rows<with_determinant>, width = columns<with_determinant>;
    const std::size_t n = flow.points;
    RunRows<T, 3> x, d_x;
    RunRows<T, height> block_moments, d_moments;
    RunRows<T, 1> d_log{};
    d_x.read(d_y + begin, n, count, {});
    if constexpr (with_determinant) d_log.read(d_log_det + begin, n, count, {});
    for (std::size_t block = flow.blocks; block-- > 0;) {
        x.read(record.states + block * 3 * n + begin, n, count, pole<T>);
        block_moments.read(record.moments + block * height * n + begin, n, count, {});
        for (std::size_t i = 0; i < run_size; ++i) {
            const auto back = block_cotangents<T, with_determinant>(
                x.vector(i), block_moments.vector(i), block_moments.matrix(i), d_x.vector(i), d_log.at[0][i]);
            d_x.set_vector(i, back.x);
            d_moments.set_vector(i, back.g);
            if constexpr (with_determinant) {
                // An entry off the diagonal stands for two of the matrix.
                d_moments.at[3][i] = back.h.xx;
                d_moments.at[4][i] = T(2) * back.h.xy;
                d_moments.at[5][i] = T(2) * back.h.xz;
                d_moments.at[6][i] = back.h.yy;
                d_moments.at[7][i] = T(2) * back.h.yz;
                d_moments.at[8][i] = back.h.zz;
            }
        }
        for (std::size_t k = block * flow.components; k < (block + 1) * flow.components; ++k) {
            const std::size_t own = group * flow.blocks * flow.components + k;
            component_backward<T, with_determinant>(flow, k, x, d_moments, d_x, out.slopes + 4 * own,
                                                    out.loads + width * own);
        }
    }
    d_x.write(out.points + begin, n, count);
}

// Calls work(begin, count, group) for each run of points; the runs of a group are done in order by one thread.
template <Real T, std::invocable<std::size_t, std::size_t, std::size_t> Work>
void parallel_for_runs(const FlowParameters<T>& flow, std::size_t groups, const Execution& execution, Work work) {
    const std::size_t points = flow.points, runs = (points + run_size - 1) / run_size;
    parallel_for(groups, execution, [&](Watch& watch) {
        return [&](std::size_t group) {
            for (std::size_t r = group * runs / groups; r < (group + 1) * runs / groups; ++r) {
                work(r * run_size, std::min(run_size, points - r * run_size), group);
                watch.pass(run_size * flow.blocks * flow.components);
            }
        };
    });
}

}  // namespace flow

// Moves the points states[0] through the blocks and writes the rest of the record.
template <Real T>
void flow_forward(const FlowParameters<T>& parameters, const FlowRecord<T>& record, const Execution& execution) {
    const flow::ScaledParameters<T> flow(parameters);
    const std::size_t runs = (flow.points + flow::run_size - 1) / flow::run_size;
    flow::parallel_for_runs(flow, runs, execution, [&](std::size_t begin, std::size_t count, std::size_t) {
        if (record.determinants) flow::forward_run<T, true>(flow, record, begin, count);
        else flow::forward_run<T, false>(flow, record, begin, count);
    });
}

// The backward pass, from cotangents of the images (3, points) and, with determinants, of the sums of their logarithms
// (points). Adds to the gradients of the parameters.
template <Real T>
void flow_backward(const FlowParameters<T>& parameters, const FlowRecord<T>& record, const T* d_y, const T* d_log_det,
                   const FlowGradient<T>& out, const Execution& execution) {
    const flow::ScaledParameters<T> flow(parameters);
    flow::parallel_for_runs(flow, out.groups, execution, [&](std::size_t begin, std::size_t count, std::size_t group) {
        if (record.determinants) flow::backward_run<T, true>(flow, record, d_y, d_log_det, out, group, begin, count);
        else flow::backward_run<T, false>(flow, record, d_y, d_log_det, out, group, begin, count);
    });
}

}  // namespace sphereot
