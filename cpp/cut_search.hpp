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

// Where to look first, and how far from there the minimum may be.
struct Start {
    double point, reach;
};

// Where the least value is, in [low, high]. `piece_at(point, low, high)` gives the piece with left <= point < right, and
// may leave out what of it lies outside the present bracket [low, high].
//
// Every piece looked at is ruled out whole, so the search ends when what is ruled out on the left meets what is ruled
// out on the right: there is no tolerance. The secant through the last two slopes of unlike sign aims, with the
// Illinois rule against creeping from one side; halving steps in when three steps have not halved the bracket.
template <class PieceAt>
double least_point(double low, double high, Start start, PieceAt piece_at) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double falling_at = low, falling = 0.0, rising_at = high, rising = 0.0;
    int side = 0, slow_steps = 0;
    // The start may be a kink, and the minimum: look at the piece on its left, then at the one on its right. Kinks are
    // differences of numbers up to 1, known to an ulp or two of 1.
    constexpr double aside = 2.0 * std::numeric_limits<double>::epsilon();
    double point = std::min(start.point - aside, std::nextafter(start.point, -infinity)), reach = start.reach;
    bool beside_start = true;

    while (low < high) {
        point = std::clamp(point, low, std::nextafter(high, low));
        const Piece piece = piece_at(point, low, high);
        if (piece.slope == 0.0) return point;
        const double width = high - low;
        if (piece.slope < 0.0) {
            low = std::min(high, std::max(piece.right, std::nextafter(point, infinity)));
            falling_at = point, falling = piece.slope;
            if (side < 0) rising *= 0.5;
            side = -1;
        } else {
            high = std::max(low, std::min(piece.left, point));
            rising_at = point, rising = piece.slope;
            if (side > 0) falling *= 0.5;
            side = 1;
        }
        slow_steps = high - low > 0.5 * width ? slow_steps + 1 : 0;

        if (falling == 0.0 || rising == 0.0) {  // one sign seen so far
            if (side < 0 && beside_start) {
                point = low + aside;
            } else {
                point = side < 0 ? low + reach : high - reach;
                reach *= 8.0;
            }
            beside_start = false;
        } else if (slow_steps >= 3) {
            point = low + 0.5 * (high - low);
            slow_steps = 0;
        } else {
            point = falling_at - falling * ((rising_at - falling_at) / (rising - falling));
        }
    }
    return low;
}

}  // namespace sphereot
