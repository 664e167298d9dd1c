// The minimum of a convex, piecewise affine function of one variable, from its slopes: exact, in finitely many steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace sphereot {

// An affine piece [left, right] of the function and its slope there.
struct Piece {
    double left, right, slope;
};

// What is known before the search: a point near the minimum, whether the minimum may be exactly there (a kink), and how
// fast the slope grows around it.
struct Start {
    double point, curvature;
    bool kink;
};

// Where the least value is, in [low, high]. `piece_at(point, low, high)` gives the piece with left <= point < right, and
// may leave out what of it lies outside the present bracket [low, high].
//
// Every piece looked at is ruled out whole, so the search ends when what is ruled out on the left meets what is ruled
// out on the right: there is no tolerance. The secant through the last slopes of unlike sign aims, a little too far so
// that the bracket closes from both sides; halving steps in when three steps have not halved the bracket.
template <class PieceAt>
double least_point(double low, double high, Start start, PieceAt piece_at) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    // A kink is a difference of numbers up to 1, known to an ulp or two of 1.
    constexpr double aside = 2.0 * std::numeric_limits<double>::epsilon(), overshoot = 0.1;
    double falling_at = low, falling = 0.0, rising_at = high, rising = 0.0, reach = 0.0;
    int side = 0, slow_steps = 0;
    double point = start.kink ? std::min(start.point - aside, std::nextafter(start.point, -infinity)) : start.point;

    while (low < high) {
        point = std::clamp(point, low, std::nextafter(high, low));
        const Piece piece = piece_at(point, low, high);
        if (piece.slope == 0.0) return point;
        const double width = high - low;
        if (piece.slope < 0.0) {
            low = std::min(high, std::max(piece.right, std::nextafter(point, infinity)));
            falling_at = point, falling = piece.slope;
            if (side < 0) rising *= 0.5;  // the Illinois rule, against creeping from one side
            side = -1;
        } else {
            high = std::max(low, std::min(piece.left, point));
            rising_at = point, rising = piece.slope;
            if (side > 0) falling *= 0.5;
            side = 1;
        }
        slow_steps = high - low > 0.5 * width ? slow_steps + 1 : 0;

        if (falling == 0.0 || rising == 0.0) {  // one sign seen so far
            if (side < 0 && start.kink) {
                point = low + aside;
                start.kink = false;
            } else {
                reach = std::max(8.0 * reach, (1.0 + overshoot) * std::fabs(piece.slope) / start.curvature);
                point = side < 0 ? low + reach : high - reach;
            }
        } else if (slow_steps >= 3) {
            point = low + 0.5 * (high - low);
            slow_steps = 0;
        } else {
            const double aim = falling_at - falling * ((rising_at - falling_at) / (rising - falling));
            const double beyond = aim + overshoot * (aim - point);
            point = low < beyond && beyond < high ? beyond : aim;
        }
    }
    return low;
}

}  // namespace sphereot
