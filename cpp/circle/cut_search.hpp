// The minimum of a convex, piecewise affine function of one variable, from its slopes: exact, in finitely many steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

namespace sphereot {

// An affine piece [left, right] of the function and its slope there. Pieces begin and end at integers.
struct Piece {
    double left, right, slope;
};

// piece_at(k, low, high): see `least_point`.
template <class Function>
concept PieceFunction = requires(Function piece_at, double k) {
    { piece_at(k, k, k) } -> std::same_as<Piece>;
};

// Where a search begins: a point near the minimum, the growth of the slope around it, and whether the minimum may be
// exactly there (a kink).
struct InitialCut {
    double point, curvature;
    bool kink;

    // The same with lengths measured in units of 1 / count.
    InitialCut in_units(double count) const { return {point * count, curvature / count, kink}; }
};

// Returns an integer in [low, high] where the function is least. piece_at(k, low, high) returns the piece with
// left <= k < right; it may cut off what lies outside the bracket [low, high]. If the slope is 0, the function is least
// on the whole piece, which then may be any one.
//
// Each step excludes a whole piece, and the search ends when the bracket is empty: there is no tolerance. Steps are
// those of the secant method with the Illinois rule, a little longer so that the bracket closes from both sides;
// bisection takes over when three steps have not halved the bracket.
template <PieceFunction PieceAt>
double least_point(double low, double high, InitialCut start, PieceAt piece_at) {
    constexpr double overshoot = 0.1, reach_growth = 8.0;
    constexpr int max_slow_steps = 3;
    double falling_at = low, falling = 0.0, rising_at = high, rising = 0.0, reach = 0.0;
    int side = 0, slow_steps = 0;
    // At a kink, look at the piece on its left, then at the one on its right.
    double point = start.kink ? std::round(start.point) - 1.0 : start.point;

    while (low < high) {
        // Slopes of extreme powers may overflow; the secant is then not a number.
        const double middle = low + std::floor(0.5 * (high - low));
        point = std::isfinite(point) ? std::clamp(std::floor(point), low, high - 1.0) : middle;
        const Piece piece = piece_at(point, low, high);
        if (piece.slope == 0.0) return std::clamp(point, piece.left, piece.right);
        const double width = high - low;
        if (piece.slope < 0.0) {
            low = std::clamp(piece.right, point + 1.0, high);
            falling_at = point;
            falling = piece.slope;
            if (side < 0) rising *= 0.5;  // the Illinois rule, against slow convergence from one side
            side = -1;
        } else {
            high = std::clamp(piece.left, low, point);
            rising_at = point;
            rising = piece.slope;
            if (side > 0) falling *= 0.5;
            side = 1;
        }
        slow_steps = high - low > 0.5 * width ? slow_steps + 1 : 0;

        if (slow_steps >= max_slow_steps && falling != 0.0 && rising != 0.0) {
            point = low + std::floor(0.5 * (high - low));
            slow_steps = 0;
        } else if (falling != 0.0 && rising != 0.0) {
            const double aim = falling_at - falling * ((rising_at - falling_at) / (rising - falling));
            const double beyond = aim + overshoot * (aim - point);
            point = low < beyond && beyond < high ? beyond : aim;
        } else if (side < 0 && start.kink) {
            point = low;
            start.kink = false;
        } else {  // all slopes so far have one sign: steps of growing length
            reach = std::max(reach_growth * reach, 1.0 + (1.0 + overshoot) * std::fabs(piece.slope) / start.curvature);
            point = side < 0 ? low + reach : high - reach;
        }
    }
    return low;
}

}  // namespace sphereot
