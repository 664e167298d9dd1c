// The exponential-map flow on S^2 (Appendix B.4), all blocks in one pass: a run of points stays in the L1 cache while
// it goes through the blocks, and the exponentials, one per point and component, are not stored.
//
// A component has slopes (beta mu, -beta) and loads (alpha mu, and alpha beta mu mu^T). It adds exp(<slope, (x, 1)>)
// times its loads to the moments of its block: the gradient g and, where determinants are wanted, the Hessian H.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include "expmap/block.hpp"
#include "support/exp.hpp"
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
constexpr std::size_t hessian_upper[6] = {3, 4, 5, 7, 8, 11};  // the columns of loads for the upper half of H

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

// The exponent of a component at a point, in powers of two: `power_of_two` takes fewer operations than exp.
template <Real T>
struct Exponent {
    T a0, a1, a2, a3;

    explicit Exponent(const T* slope)
        : a0(slope[0] * T(log2_e)), a1(slope[1] * T(log2_e)), a2(slope[2] * T(log2_e)), a3(slope[3] * T(log2_e)) {}

    SPHEREOT_INLINE T operator()(T x0, T x1, T x2) const { return a0 * x0 + (a1 * x1 + (a2 * x2 + a3)); }
};

// The moments of a block at a run of points.
template <Real T, bool with_determinant>
RunRows<T, rows<with_determinant>> moments(const FlowParameters<T>& flow, std::size_t block, const RunRows<T, 3>& x) {
    RunRows<T, rows<with_determinant>> sums{};
    for (std::size_t k = block * flow.components; k < (block + 1) * flow.components; ++k) {
        const Exponent<T> exponent(flow.slopes + 4 * k);
        const T* load = flow.loads + columns<with_determinant> * k;
        T g[3], h[6] = {};
        for (std::size_t r = 0; r < 3; ++r) g[r] = load[r];
        if constexpr (with_determinant)
            for (std::size_t r = 0; r < 6; ++r) h[r] = load[hessian_upper[r]];
#pragma omp simd
        for (std::size_t i = 0; i < run_size; ++i) {
            const T power = power_of_two(exponent(x.at[0][i], x.at[1][i], x.at[2][i]));
            sums.at[0][i] += g[0] * power;
            sums.at[1][i] += g[1] * power;
            sums.at[2][i] += g[2] * power;
            if constexpr (with_determinant) {
                sums.at[3][i] += h[0] * power;
                sums.at[4][i] += h[1] * power;
                sums.at[5][i] += h[2] * power;
                sums.at[6][i] += h[3] * power;
                sums.at[7][i] += h[4] * power;
                sums.at[8][i] += h[5] * power;
            }
        }
    }
    return sums;
}

// Moves the points [begin, begin + count) through all blocks.
template <Real T, bool with_determinant>
void forward_run(const FlowParameters<T>& flow, const FlowRecord<T>& record, std::size_t begin, std::size_t count) {
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

// Adds the gradients of the parameters of one component, and its part of the gradient of the points.
template <Real T, bool with_determinant>
void component_backward(const T* slope, const T* load, const RunRows<T, 3>& x,
                        const RunRows<T, rows<with_determinant>>& d, RunRows<T, 3>& d_x, T* d_slope, T* d_load) {
    T s0 = 0, s1 = 0, s2 = 0, s3 = 0, g0 = 0, g1 = 0, g2 = 0, h0 = 0, h1 = 0, h2 = 0, h3 = 0, h4 = 0, h5 = 0;
    const Exponent<T> exponent(slope);
    const T a0 = slope[0], a1 = slope[1], a2 = slope[2], l0 = load[0], l1 = load[1], l2 = load[2];
    T m0 = 0, m1 = 0, m2 = 0, m3 = 0, m4 = 0, m5 = 0;
    if constexpr (with_determinant) {
        m0 = load[3];
        m1 = load[4];
        m2 = load[5];
        m3 = load[7];
        m4 = load[8];
        m5 = load[11];
    }
#pragma omp simd reduction(+ : s0, s1, s2, s3, g0, g1, g2, h0, h1, h2, h3, h4, h5)
    for (std::size_t i = 0; i < run_size; ++i) {
        const T x0 = x.at[0][i], x1 = x.at[1][i], x2 = x.at[2][i];
        const T power = power_of_two(exponent(x0, x1, x2));
        T d_power = l0 * d.at[0][i] + l1 * d.at[1][i] + l2 * d.at[2][i];
        g0 += power * d.at[0][i];
        g1 += power * d.at[1][i];
        g2 += power * d.at[2][i];
        if constexpr (with_determinant) {
            d_power += m0 * d.at[3][i] + m1 * d.at[4][i] + m2 * d.at[5][i] + m3 * d.at[6][i] + m4 * d.at[7][i] +
                       m5 * d.at[8][i];
            h0 += power * d.at[3][i];
            h1 += power * d.at[4][i];
            h2 += power * d.at[5][i];
            h3 += power * d.at[6][i];
            h4 += power * d.at[7][i];
            h5 += power * d.at[8][i];
        }
        const T d_exponent = power * d_power;
        s0 += d_exponent * x0;
        s1 += d_exponent * x1;
        s2 += d_exponent * x2;
        s3 += d_exponent;
        d_x.at[0][i] += d_exponent * a0;
        d_x.at[1][i] += d_exponent * a1;
        d_x.at[2][i] += d_exponent * a2;
    }
    d_slope[0] += s0;
    d_slope[1] += s1;
    d_slope[2] += s2;
    d_slope[3] += s3;
    d_load[0] += g0;
    d_load[1] += g1;
    d_load[2] += g2;
    if constexpr (with_determinant) {
        d_load[3] += h0;
        d_load[4] += h1;
        d_load[5] += h2;
        d_load[7] += h3;
        d_load[8] += h4;
        d_load[11] += h5;
    }
}

// The backward pass of the points [begin, begin + count), which belong to one group.
template <Real T, bool with_determinant>
void backward_run(const FlowParameters<T>& flow, const FlowRecord<T>& record, const T* d_y, const T* d_log_det,
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
            component_backward<T, with_determinant>(flow.slopes + 4 * k, flow.loads + width * k, x, d_moments, d_x,
                                                    out.slopes + 4 * own, out.loads + width * own);
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
void flow_forward(const FlowParameters<T>& flow, const FlowRecord<T>& record, const Execution& execution) {
    const std::size_t runs = (flow.points + flow::run_size - 1) / flow::run_size;
    flow::parallel_for_runs(flow, runs, execution, [&](std::size_t begin, std::size_t count, std::size_t) {
        if (record.determinants) flow::forward_run<T, true>(flow, record, begin, count);
        else flow::forward_run<T, false>(flow, record, begin, count);
    });
}

// The backward pass, from cotangents of the images (3, points) and, with determinants, of the sums of their logarithms
// (points). Adds to the gradients of the parameters.
template <Real T>
void flow_backward(const FlowParameters<T>& flow, const FlowRecord<T>& record, const T* d_y, const T* d_log_det,
                   const FlowGradient<T>& out, const Execution& execution) {
    flow::parallel_for_runs(flow, out.groups, execution, [&](std::size_t begin, std::size_t count, std::size_t group) {
        if (record.determinants) flow::backward_run<T, true>(flow, record, d_y, d_log_det, out, group, begin, count);
        else flow::backward_run<T, false>(flow, record, d_y, d_log_det, out, group, begin, count);
    });
}

}  // namespace sphereot
