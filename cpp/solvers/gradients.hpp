// Gradients of slice costs, by the envelope theorem: the cut is held, and the matched pairs are differentiated.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "slicing/measure.hpp"
#include "slicing/slice_run.hpp"
#include "slicing/transpose.hpp"
#include "solvers/costs.hpp"
#include "support/compiler.hpp"
#include "support/parallel.hpp"

namespace sphereot {

// ---- in turns, on one circle; atoms in the order of the input ----

template <class T, class Power>
void equal_turn_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, T* dx, T* dy) {
    const std::size_t n = x.size();
    const double k = std::round(cut * static_cast<double>(n)), laps = std::floor(k / static_cast<double>(n));
    const auto shift = static_cast<std::size_t>(k - laps * static_cast<double>(n));
    const T *a = x.turns().data(), *b = y.turns().data();
    const T share = T(1) / static_cast<T>(n);
    const auto segment = [&](std::size_t i, std::size_t j, std::size_t count, T lift) {
        for (; count > 0; --count, ++i, ++j) {
            const T slope = share * static_cast<T>(power.derivative((a[i] - b[j]) - lift));
            dx[x.source_index(i)] = slope;
            dy[y.source_index(j)] = -slope;
        }
    };
    const T lift = static_cast<T>(laps);
    segment(0, shift, n - shift, lift);
    segment(n - shift, 0, shift, lift + T(1));
}

template <class T, class Power>
void general_turn_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, T* dx, T* dy) {
    std::vector<double> by_x(x.size()), by_y(y.size());
    const auto visit = [&, power](std::size_t i, std::size_t j, double mass, T displacement) {
        if (is_large<Power> && mass <= mass_trace) return;
        const double slope = mass * static_cast<double>(power.derivative(displacement));
        by_x[i] += slope;
        by_y[j] -= slope;
    };
    walk_levels(x, y, cut, visit, visit);
    for (std::size_t i = 0; i < x.size(); ++i) dx[x.source_index(i)] = static_cast<T>(by_x[i]);
    for (std::size_t j = 0; j < y.size(); ++j) dy[y.source_index(j)] = static_cast<T>(by_y[j]);
}

// Equal weights and p = 2: twice the displacement of the middle of the atom's levels, times its weight.
template <class T>
void equal_uniform_turn_gradient(const Atoms<T>& x, double alpha, T* dx) {
    const T* turn = x.turns().data();
    const double weight = 1.0 / static_cast<double>(x.size());
    T slopes[block_size];
    for (std::size_t begin = 0; begin < x.size(); begin += block_size) {
        const std::size_t count = std::min(block_size, x.size() - begin);
        for (std::size_t i = 0; i < count; ++i) {
            const double level = (static_cast<double>(begin + i) + 0.5) * weight;
            slopes[i] = static_cast<T>(2.0 * weight * (turn[begin + i] - alpha - level));
        }
        for (std::size_t i = 0; i < count; ++i) {
            SPHEREOT_NO_VECTORIZE;  // scatter instructions are slower than single stores
            dx[x.source_index(begin + i)] = slopes[i];
        }
    }
}

template <class T, class Power>
void uniform_turn_gradient(const Atoms<T>& x, double alpha, Power power, T* dx) {
    const T* turn = x.turns().data();
    const double* mass = x.masses().data();
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double first = turn[i] - alpha - mass[i], last = turn[i] - alpha - mass[i + 1];
        dx[x.source_index(i)] = static_cast<T>(power.difference(first, last));
    }
}

// ---- in weights: the dual potential phi of the first measure ----

// Turns potentials by sorted atom into derivatives by weight: weights are scaled to a total of 1, so a constant added
// to phi does not matter, and the derivative is phi minus its mean, over the total.
template <class T>
void add_weight_gradient(const Atoms<T>& x, const std::vector<double>& phi, double share, double* out) {
    const double* mass = x.masses().data();
    double mean = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) mean += (mass[i + 1] - mass[i]) * phi[i];
    for (std::size_t i = 0; i < x.size(); ++i) out[x.source_index(i)] += share * (phi[i] - mean) / x.total_weight();
}

// The atoms of y on both sides of a level of x, with the whole turns they are lifted by; one and the same, if no level
// of y meets it.
struct Neighbors {
    std::size_t lower, upper;
    double lower_lap, upper_lap;
    bool meet;
};

template <class T>
Neighbors neighbors_at(const Atoms<T>& y, double shifted_level, double same_level) {
    const std::size_t m = y.size();
    const double* B = y.masses().data();
    const double lap = std::ceil(shifted_level) - 1.0, level = std::min(shifted_level - lap, 1.0);
    const std::size_t j = y.atom_at(level);
    if (B[j + 1] - level < same_level) {
        const bool last = j + 1 == m;
        return {j, last ? 0 : j + 1, lap, last ? lap + 1.0 : lap, true};
    }
    if (level - B[j] < same_level) return {j > 0 ? j - 1 : m - 1, j, j > 0 ? lap : lap - 1.0, lap, true};
    return {j, j, lap, lap, false};
}

// phi + psi equals the cost on matched pairs: neighbors x_i, x_{i+1} that share a y differ by what the two pay for it.
// Where a level of x meets a level of y (at the cut one does, at equal weights many do) there are two y to share, the
// lower and the upper. Around the circle the differences must add up to 0. They change sign between all lower and all
// upper, because the cut is optimal; so somewhere in a row of switches from lower to upper lies the seam where the sum
// passes 0. There neither is shared, and the chain of differences begins behind it.
template <class T, class Power>
void general_weight_gradient(const Atoms<T>& x, const Atoms<T>& y, double cut, Power power, double share, double* out) {
    const std::size_t n = x.size();
    const T *a = x.turns().data(), *b = y.turns().data();
    const double* A = x.masses().data();
    // What one turn pays for an atom of y more than another.
    const auto paid = [=](T one, T other, std::size_t j, double lap) {
        const T lift = static_cast<T>(lap);
        return static_cast<double>(power.difference((one - b[j]) - lift, (other - b[j]) - lift));
    };
    // The accuracy of sums of weights, and of the cut of large orders.
    constexpr double rounding_of_masses = 1e-13;
    constexpr double same_level = is_large<Power> ? mass_trace : rounding_of_masses;
    std::vector<double> step(n), upper(n);
    std::vector<std::uint32_t> meetings;
    double around = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        const Neighbors near = neighbors_at(y, A[i + 1] + cut, same_level);
        step[i] = paid(a[i + 1], a[i], near.lower, near.lower_lap);
        if (near.meet) {
            meetings.push_back(static_cast<std::uint32_t>(i));
            upper[i] = paid(a[i + 1], a[i], near.upper, near.upper_lap);
        }
        around += step[i];
    }
    std::size_t seam = meetings.empty() ? n - 1 : meetings.back();
    const bool positive = around > 0.0;
    for (const std::uint32_t i : meetings) {
        around += upper[i] - step[i];
        if ((around > 0.0) != positive || around == 0.0) {
            seam = i;
            break;
        }
        step[i] = upper[i];
    }
    std::vector<double> phi(n);
    std::size_t i = (seam + 1) % n;
    for (std::size_t count = 1; count < n; ++count) {
        const std::size_t next = (i + 1) % n;
        phi[next] = phi[i] + step[i];
        i = next;
    }
    // An atom without mass is in no pair. Its potential is the price of the first bit of mass: with the partner of the
    // atom before it, or of the one behind, whichever is less.
    const auto empty = [=](std::size_t k) { return A[k + 1] == A[k]; };
    for (std::size_t k = 0; k < n; ++k) {
        if (!empty(k)) continue;
        std::size_t before = k, behind = k;
        T before_lap = T(0), behind_lap = T(0);
        do {
            before_lap -= before == 0 ? T(1) : T(0);
            before = (before + n - 1) % n;
        } while (empty(before));
        do {
            behind = (behind + 1) % n;
            behind_lap += behind == 0 ? T(1) : T(0);
        } while (empty(behind));
        const Neighbors near = neighbors_at(y, A[k] + cut, same_level);
        phi[k] = std::min(phi[before] + paid(a[k], a[before] + before_lap, near.lower, near.lower_lap),
                          phi[behind] + paid(a[k], a[behind] + behind_lap, near.upper, near.upper_lap));
    }
    add_weight_gradient(x, phi, share, out);
}

template <class T, class Power>
void uniform_weight_gradient(const Atoms<T>& x, double alpha, Power power, double share, double* out) {
    const T* turn = x.turns().data();
    const double* mass = x.masses().data();
    std::vector<double> phi(x.size());
    for (std::size_t i = 0; i + 1 < x.size(); ++i)
        phi[i + 1] = phi[i] + power.difference(turn[i + 1] - alpha - mass[i + 1], turn[i] - alpha - mass[i + 1]);
    add_weight_gradient(x, phi, share, out);
}

// ---- from turns back to where the turns came from ----

// Where the gradient of one measure goes; null where it is not wanted.
template <class T>
struct GradientOutput {
    T* data;          // points, rows: (atoms, dim); planar: (slices, 2, atoms); turns: (slices, atoms)
    double* weights;  // points, rows, planar: (atoms); turns: (slices, atoms)
    double share;     // what the gradient of a slice is multiplied by: 1 / L for a mean
};

// A point whose projection has at most this squared length is orthogonal to the plane, to rounding.
template <class T>
inline constexpr T orthogonal_square = 64 * std::numeric_limits<T>::epsilon() * std::numeric_limits<T>::epsilon();

// The squared length of a projection below which gradients decrease.
template <class T>
inline constexpr T least_square = T(0x1p-40);

static_assert(orthogonal_square<float> <= least_square<float> && orthogonal_square<double> <= least_square<double>);

// The turn of q = U^T x has the gradient (-q_2, q_1) / (2 pi |q|^2). A point orthogonal to the plane, to rounding, has
// no direction on the circle, and gets none. Close to that, |q| < 2^-20, the gradient is that at |q| = 2^-20 times |q|
// 2^20: it would hold for moves shorter than |q| only, and in single precision |q| is nothing but rounding there. So it
// is never longer than 2^20 / (2 pi). `out` has the shape of the measure's own data; points are added to.
template <class T>
void pull_back(const SlicedMeasure<T>& x, std::size_t slice, const T* dturn, double share, T* out) {
    using Form = typename SlicedMeasure<T>::Form;
    const T turns_per_radian = static_cast<T>(share * 0.5 / std::numbers::pi);
    if (x.form == Form::turns) {
        for (std::size_t i = 0; i < x.atoms; ++i) out[slice * x.atoms + i] = static_cast<T>(share) * dturn[i];
        return;
    }
    T first[block_size], second[block_size], d1[block_size], d2[block_size];
    for (std::size_t begin = 0; begin < x.atoms; begin += block_size) {
        const std::size_t count = std::min(block_size, x.atoms - begin);
        const T *q1 = first, *q2 = second;
        if (x.form == Form::planar) {
            q1 = x.data + slice * 2 * x.atoms + begin;
            q2 = q1 + x.atoms;
        } else {
            x.project(slice, begin, count, first, second);
        }
        for (std::size_t i = 0; i < count; ++i) {
            const T along = q1[i], across = q2[i], square = along * along + across * across;
            const T scale = square > orthogonal_square<T>
                                ? turns_per_radian * dturn[begin + i] / std::max(square, least_square<T>)
                                : T(0);
            d1[i] = -across * scale;
            d2[i] = along * scale;
        }
        if (x.form == Form::planar) {  // `out` may be the planar points themselves
            T* planar = out + slice * 2 * x.atoms + begin;
            std::copy_n(d1, count, planar);
            std::copy_n(d2, count, planar + x.atoms);
            continue;
        }
        const T* frame = x.frames + slice * x.dim * 2;
        for (std::size_t k = 0; k < x.dim; ++k) {
            T* coordinate = out + k * x.atoms + begin;
            const T u = frame[2 * k], v = frame[2 * k + 1];
            for (std::size_t i = 0; i < count; ++i) coordinate[i] += u * d1[i] + v * d2[i];
        }
    }
}

// ---- all slices ----

// As many slices as stay in the cache of a core, where each takes this many vectors of two numbers (its points, and its
// frame); but enough for a product to be worth its start.
template <class T>
std::size_t slices_per_tile(std::size_t vectors) {
    constexpr std::size_t bytes = 1 << 18, least = 32;
    return std::max(least, bytes / (2 * vectors * sizeof(T)));
}

// The sums of gradients over slices. A group is a run of slices that one task adds up, in order, so that the number of
// threads does not show in the result; the sums of the groups are added up in the end. Turns are not: there each slice
// is a problem, and a group, of its own.
template <class T>
class GradientSums {
public:
    using Form = typename SlicedMeasure<T>::Form;

    GradientSums(const SlicedMeasure<T>& x, GradientOutput<T> out, std::size_t groups)
        : x_(x), out_(out), groups_(groups) {
        // By rows the first group has its sum in the output, and sums begin with their first term.
        if (out.data && x.form == Form::rows) points_ = std::make_unique_for_overwrite<T[]>((groups - 1) * size());
        if (out.data && x.form == Form::points) points_ = std::make_unique<T[]>(groups * size());
        if (out.weights && x.form != Form::turns) weights_ = std::make_unique<double[]>(groups * x.atoms);
        if (out.weights && x.form == Form::turns) std::fill_n(out.weights, x.slices * x.atoms, 0.0);
    }

    // The gradient in turns of the l-th slice in hand, back to the data; by rows, when the tile is done.
    void pull_back(SliceRun<T>& own, std::size_t l, std::size_t group, const T* dturn) {
        if (!out_.data) return;
        T* to = own.tile() ? own.tile()->gradient() : x_.form == Form::points ? points(group) : out_.data;
        sphereot::pull_back(own.measure(), own.slice(l), dturn, out_.share, to);
    }
    void accumulate_gradient(SliceRun<T>& own, std::size_t count, std::size_t group, Accumulate accumulate) {
        if (out_.data && own.tile()) own.tile()->accumulate_gradient(count, points(group), accumulate);
    }

    // Null where they are not wanted.
    double* weights(std::size_t group) {
        return out_.weights ? (weights_ ? weights_.get() : out_.weights) + group * x_.atoms : nullptr;
    }
    double share() const { return out_.share; }

    void add_up() {
        for (std::size_t group = 1; group < groups_; ++group) {
            if (points_) add(points(group), size(), points(0));
            if (weights_) add(weights(group), x_.atoms, weights(0));
        }
        if (points_ && x_.form == Form::points) transpose(points(0), x_.atoms, x_.dim, x_.atoms, out_.data, x_.dim);
        if (weights_) std::copy_n(weights(0), x_.atoms, out_.weights);
    }

private:
    std::size_t size() const { return x_.dim * x_.atoms; }

    // (dim, atoms), or by rows (atoms, dim).
    T* points(std::size_t group) {
        if (x_.form == Form::points) return points_.get() + group * size();
        return group == 0 ? out_.data : points_.get() + (group - 1) * size();
    }

    template <class Number>
    static void add(const Number* term, std::size_t count, Number* sum) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += term[i];
    }

    SlicedMeasure<T> x_;
    GradientOutput<T> out_;
    std::size_t groups_;
    std::unique_ptr<T[]> points_;
    std::unique_ptr<double[]> weights_;
};

// worker(first, count, group, accumulate) for runs of slices no longer than a tile, group by group: the first run of a
// group begins its sum.
template <class MakeWorker>
void parallel_for_groups(std::size_t slices, std::size_t groups, std::size_t tile_length, const Execution& execution,
                         MakeWorker make_worker) {
    parallel_for(groups, execution, [&](Watch& watch) {
        return [=, worker = make_worker(watch)](std::size_t group) mutable {
            const std::size_t begin = group * slices / groups, count = (group + 1) * slices / groups - begin;
            const std::size_t runs = (count + tile_length - 1) / tile_length;
            for (std::size_t run = 0; run < runs; ++run) {
                const std::size_t first = run * count / runs, last = (run + 1) * count / runs;
                worker(begin + first, last - first, group, run == 0 ? Accumulate::no : Accumulate::yes);
            }
        };
    });
}

// The order of the costs, and the unit of length in which they and their gradients are wanted: beyond
// `largest_plain_order` they are those of (W_p / unit)^p.
struct Order {
    double p, unit;
};

template <class T>
void differentiate_slices(const SlicedMeasure<T>& x, const SlicedMeasure<T>& y, Order order, std::size_t groups,
                          const Execution& execution, double* costs, GradientOutput<T> out_x, GradientOutput<T> out_y) {
    const std::size_t tile_length = slices_per_tile<T>(x.atoms + y.atoms + 2 * x.dim);
    GradientSums<T> sums_x(x, out_x, groups), sums_y(y, out_y, groups);
    with_power(order.p, order.unit, [&](auto power) {
        parallel_for_groups(x.slices, groups, tile_length, execution, [&, power](Watch& watch) {
            const bool equal = equal_atoms(x, y);
            return [&, power, equal, a = Atoms<T>(x.atoms), b = Atoms<T>(y.atoms), dx = std::vector<T>(x.atoms),
                    dy = std::vector<T>(y.atoms), run_x = SliceRun<T>(x, tile_length),
                    run_y = SliceRun<T>(y, tile_length)](std::size_t first, std::size_t count, std::size_t group,
                                                         Accumulate accumulate) mutable {
                run_x.load(first, count);
                run_y.load(first, count);
                for (std::size_t l = 0; l < count; ++l) {
                    run_x.sort_slice(l, a, true);
                    run_y.sort_slice(l, b, true);
                    if (!equal) {
                        a.set_equal_masses();
                        b.set_equal_masses();
                    }
                    const Pairing<T> pairing{a, b, equal};
                    const double cut = pairing.cut(power);
                    costs[first + l] = pairing.cost(cut, power).cost();
                    if (equal) equal_turn_gradient(a, b, cut, power, dx.data(), dy.data());
                    else general_turn_gradient(a, b, cut, power, dx.data(), dy.data());
                    sums_x.pull_back(run_x, l, group, dx.data());
                    sums_y.pull_back(run_y, l, group, dy.data());
                    if (double* to = sums_x.weights(group))
                        general_weight_gradient(a, b, cut, power, sums_x.share(), to);
                    if (double* to = sums_y.weights(group))
                        general_weight_gradient(b, a, -cut, power, sums_y.share(), to);
                    watch.pass(x.atoms + y.atoms);
                }
                sums_x.accumulate_gradient(run_x, count, group, accumulate);
                sums_y.accumulate_gradient(run_y, count, group, accumulate);
            };
        });
    });
    sums_x.add_up();
    sums_y.add_up();
}

template <class T>
void differentiate_slices_uniform(const SlicedMeasure<T>& x, Order order, std::size_t groups,
                                  const Execution& execution, double* costs, GradientOutput<T> out) {
    const std::size_t tile_length = slices_per_tile<T>(x.atoms + x.dim);
    GradientSums<T> sums(x, out, groups);
    with_power(order.p, order.unit, [&](auto power) {
        parallel_for_groups(x.slices, groups, tile_length, execution, [&, power](Watch& watch) {
            const bool closed_form = order.p == 2.0 && !x.weights && !out.weights;
            return [&, power, closed_form, a = Atoms<T>(x.atoms), dx = std::vector<T>(x.atoms),
                    own = SliceRun<T>(x, tile_length)](std::size_t first, std::size_t count, std::size_t group,
                                                       Accumulate accumulate) mutable {
                own.load(first, count);
                for (std::size_t l = 0; l < count; ++l) {
                    own.sort_slice(l, a, true);
                    if (!closed_form) a.set_equal_masses();
                    const double cut = uniform_cut(a, power, watch);
                    costs[first + l] = uniform_cost(a, cut, power).cost();
                    if (closed_form) equal_uniform_turn_gradient(a, cut, dx.data());
                    else uniform_turn_gradient(a, cut, power, dx.data());
                    sums.pull_back(own, l, group, dx.data());
                    if (double* to = sums.weights(group)) uniform_weight_gradient(a, cut, power, sums.share(), to);
                    watch.pass(x.atoms);
                }
                sums.accumulate_gradient(own, count, group, accumulate);
            };
        });
    });
    sums.add_up();
}

}  // namespace sphereot
