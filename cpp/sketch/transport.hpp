// W_p between measures known by their bins, for any p: atoms at the mean of each bin, and what the bound needs.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "circle/atoms.hpp"
#include "circle/pairing.hpp"
#include "circle/powers.hpp"
#include "circle/uniform.hpp"
#include "sketch/histogram.hpp"
#include "solvers/costs.hpp"
#include "support/parallel.hpp"

namespace sphereot {

// The largest mean of |X - o|^p for X in [0, 1] with mean o: X is 0 or 1.
inline double largest_moment(double o, double p) { return (1.0 - o) * std::pow(o, p) + o * std::pow(1.0 - o, p); }

// One measure on one circle as atoms at the means of its bins.
class BinAtoms {
public:
    explicit BinAtoms(std::size_t bins) : atoms(bins), spread(bins), circle_(bins), turns_(bins), levels_(bins + 1) {}

    Atoms<double> atoms;
    std::vector<double> spread;  // of each atom, as in CircleBins

    // Reads a slice. Bins without mass are left out.
    void read(const Histogram& from, std::size_t slice) {
        circle_.read(from, slice);
        const double width = 1.0 / static_cast<double>(circle_.bins());
        std::size_t count = 0;
        double level = 0.0;
        levels_[0] = 0.0;
        for (std::size_t j = 0; j < circle_.bins(); ++j) {  // without a branch: what is not kept is overwritten
            const double next = whole_units(circle_.levels[j + 1]);
            turns_[count] = (static_cast<double>(j) + circle_.offsets[j]) * width;
            spread[count] = circle_.spread[j];
            levels_[count + 1] = next;
            count += next > level;
            level = next;
        }
        atoms.set_sorted({turns_.data(), count}, {levels_.data(), count + 1});
    }

    // The largest W_p^p between the measure and its atoms, in widths of a bin.
    double displacement(double p) const {
        double total = 0.0;
        for (std::size_t j = 0; j < circle_.bins(); ++j) {
            const double spread_here = circle_.spread[j];
            if (spread_here > 0.0)
                total += (circle_.levels[j + 1] - circle_.levels[j]) *
                         (p == 2.0 ? spread_here : largest_moment(circle_.offsets[j], p));
        }
        return total;
    }

private:
    CircleBins circle_;
    std::vector<double> turns_, levels_;
};

// The sum over atoms of y of mass times spread times the range of their partners, at the cut where x at the level t is
// matched with y at the level t + cut. The range includes the jumps of the quantile function of x at both ends.
inline double partner_ranges(const BinAtoms& y, const BinAtoms& x, double cut, CutMemory& memory) {
    const std::size_t n = x.atoms.size(), m = y.atoms.size();
    const double *masses = x.atoms.masses().data(), *turns = x.atoms.turns().data();
    const ShiftedLevels shifted = shift_levels(y.atoms, cut, memory.levels);
    const double *levels = memory.levels.data(), *spread = y.spread.data();
    memory.ranks.resize(std::max(memory.ranks.size(), m));
    const std::uint32_t* ranks = memory.ranks.data();
    rank_levels(masses, n, levels, m, memory.ranks.data());
    const auto term = [=](std::size_t r, std::size_t atom, double before, double left) {
        const std::size_t right = ranks[r] + (levels[r] == masses[ranks[r] + 1]);
        return (levels[r] - before) * spread[atom] * (turns[right] - left);
    };
    double total = term(0, shifted.first, levels[m - 1] - 1.0, turns[ranks[m - 1]] - 1.0);
    for (std::size_t r = 1; r < m; ++r) {
        const std::size_t atom = r < shifted.before_lap ? shifted.first + r : r - shifted.before_lap;
        total += term(r, atom, levels[r - 1], turns[ranks[r - 1]]);
    }
    return total;
}

// What is computed for each slice: W_p^p or W_p between the atoms, the displacement of each measure, and for p = 2 the
// sum of the partner ranges of both. Arrays of (slices); `y_displacement` is null against the uniform measure.
struct TransportOutput {
    double *cost, *x_displacement, *y_displacement, *ranges;
};

template <CostPower Power>
class TransportWorker {
public:
    TransportWorker(const Histogram& x, const Histogram* y, Power power, double p, TransportOutput out, Watch& watch)
        : x_(x), y_(y), power_(power), p_(p), out_(out), watch_(watch), a_(x.bins), b_(y ? x.bins : 1) {}

    void operator()(std::size_t slice) {
        a_.read(x_, slice);
        out_.x_displacement[slice] = a_.displacement(p_);
        if (y_) solve_pair(slice);
        else solve_uniform(slice);
        watch_.pass(2 * x_.bins);
    }

private:
    void solve_pair(std::size_t slice) {
        b_.read(*y_, slice);
        out_.y_displacement[slice] = b_.displacement(p_);
        const Pairing<double> pairing{a_.atoms, b_.atoms, Matching::general, memory_};
        const double cut = pairing.cut(power_);
        out_.cost[slice] = pairing.cost(cut, power_);
        if (p_ != 2.0) return;
        out_.ranges[slice] = partner_ranges(b_, a_, cut, memory_) + partner_ranges(a_, b_, -cut, memory_);
    }

    void solve_uniform(std::size_t slice) {
        const Atoms<double>& x = a_.atoms;
        out_.cost[slice] = uniform_cost(x, uniform_cut(x, power_, watch_), power_);
        if (p_ != 2.0) return;
        // The partners of an atom of mass m are an arc of length m.
        double ranges = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double mass = x.masses()[i + 1] - x.masses()[i];
            ranges += mass * mass * a_.spread[i];
        }
        out_.ranges[slice] = ranges;
    }

    Histogram x_;
    const Histogram* y_;
    Power power_;
    double p_;
    TransportOutput out_;
    Watch& watch_;
    CutMemory memory_;
    BinAtoms a_, b_;
};

// Distances of two measures on all slices; y is null for the uniform measure.
inline void transport_distances(const Histogram& x, const Histogram* y, double p, const Execution& execution,
                                TransportOutput out) {
    with_power(p, [&](auto power) {
        parallel_for(x.slices, execution,
                     [&](Watch& watch) { return TransportWorker<decltype(power)>(x, y, power, p, out, watch); });
    });
}

}  // namespace sphereot
