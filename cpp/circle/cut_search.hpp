// The minimum of a convex, piecewise affine function of one variable, from its slopes: exact, in finitely many steps.
#pragma once

#include <algorithm>
#include <cmath>

namespace sphereot {

// An affine piece [left, right] of the function and its slope there. Pieces begin and end at whole numbers.
struct Piece {
    double left, right, slope;
};

// What is known before the search: a point near the minimum, whether the minimum may be exactly there (a kink), and how
// fast the slope grows around it.
struct Start {
    double point, curvature;
    bool kink;

    // The same in units of which `count` make one.
    Start in_units(double count) const { return {point * count, curvature / count, kink}; }
};

// Where the least value is: a whole number in [low, high]. `piece_at(k, low, high)` gives the piece with left <= k <
// right, and may leave out what of it lies outside the present bracket [low, high].
//
// Every piece looked at is ruled out whole, so the search ends when what is ruled out on the left meets what is ruled
// out on the right: there is no tolerance. The secant through the last slopes of unlike sign aims, a little too far so
// that the bracket closes from both sides; halving steps in when three steps have not halved the bracket.
template <class PieceAt>
double least_point(double low, double high, Start start, PieceAt piece_at) {
    constexpr double overshoot = 0.1;
    double falling_at = low, falling = 0.0, rising_at = high, rising = 0.0, reach = 0.0;
    int side = 0, slow_steps = 0;
    // At a kink, look at the piece on its left, then at the one on its right.
    double point = start.kink ? std::round(start.point) - 1.0 : start.point;

    while (low < high) {
        // Slopes of extreme powers may overflow, and then aim nowhere.
        const double middle = low + std::floor(0.5 * (high - low));
        point = std::isfinite(point) ? std::clamp(std::floor(point), low, high - 1.0) : middle;
        const Piece piece = piece_at(point, low, high);
        if (piece.slope == 0.0) return point;
        const double width = high - low;
        if (piece.slope < 0.0) {
            low = std::clamp(piece.right, point + 1.0, high);
            falling_at = point, falling = piece.slope;
            if (side < 0) rising *= 0.5;  // the Illinois rule, against creeping from one side
            side = -1;
        } else {
            high = std::clamp(piece.left, low, point);
            rising_at = point, rising = piece.slope;
            if (side > 0) falling *= 0.5;
            side = 1;
        }
        slow_steps = high - low > 0.5 * width ? slow_steps + 1 : 0;

        if (slow_steps >= 3 && falling != 0.0 && rising != 0.0) {
            point = low + std::floor(0.5 * (high - low));
            slow_steps = 0;
        } else if (falling != 0.0 && rising != 0.0) {
            const double aim = falling_at - falling * ((rising_at - falling_at) / (rising - falling));
            const double beyond = aim + overshoot * (aim - point);
            point = low < beyond && beyond < high ? beyond : aim;
        } else if (side < 0 && start.kink) {
            point = low;
            start.kink = false;
        } else {  // one sign seen so far: reach out, ever further
            reach = std::max(8.0 * reach, 1.0 + (1.0 + overshoot) * std::fabs(piece.slope) / start.curvature);
            point = side < 0 ? low + reach : high - reach;
        }
    }
    return low;
}

}  // namespace sphereot
