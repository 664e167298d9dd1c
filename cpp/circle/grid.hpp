// Turns as integers: the circle R/Z on a grid, and the turn of a point of the plane.
//
// A turn is stored as a key, a multiple of the spacing that the float type has just below 1. On that grid the
// difference of two turns is exact in floating point, equal points have equal keys, and keys can be radix-sorted.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "support/real.hpp"

namespace sphereot {

// key(turn): the nearest grid point to a turn in [0, 1], where 1 is the same point as 0. turn(key): back, in [0, 1).
template <Real T>
struct Grid;

template <>
struct Grid<float> {
    using Key = std::uint32_t;
    static constexpr int bits = 24;
    static constexpr Key mask = (Key{1} << bits) - 1;
    static constexpr float steps = static_cast<float>(Key{1} << bits);

    // Two conversions and no rounding instruction, which the x86-64 baseline lacks: truncate to half steps, then round.
    static Key key(float turn) {
        const auto half_steps = static_cast<Key>(static_cast<std::int32_t>(turn * (2.0f * steps)));
        return ((half_steps + 1) >> 1) & mask;
    }
    static float turn(Key key) { return static_cast<float>(static_cast<std::int32_t>(key)) * (1.0f / steps); }
};

template <>
struct Grid<double> {
    using Key = std::uint64_t;
    static constexpr int bits = 52;
    static constexpr Key mask = (Key{1} << bits) - 1;
    static constexpr Key bits_of_one = std::bit_cast<Key>(1.0);

    // The significand of 1 + turn is the key; a turn that rounds up to 1 becomes 2.0, whose significand is 0.
    static Key key(double turn) { return std::bit_cast<Key>(1.0 + turn) & mask; }
    static double turn(Key key) { return std::bit_cast<double>(key | bits_of_one) - 1.0; }
};

// atan(a) / (2 pi) as a times a polynomial in a^2 of least maximum error (tools/fit_polynomials.py).
//
// Valid range: [0, 1]. Maximum error: 6e-9 turns, a tenth of the grid, and rounding.
inline float octant_turn(float a) {
    const float z = a * a;
    float s = -0.000645308625287f;
    s = s * z + 0.00347961628503f;
    s = s * z - 0.00889875461188f;
    s = s * z + 0.0153460599369f;
    s = s * z - 0.022136282618f;
    s = s * z + 0.0317459474508f;
    s = s * z - 0.053046121125f;
    s = s * z + 0.159154837344f;
    return s * a;
}

// The same in double precision. The polynomial is fitted on [0, tan(pi/8)]; beyond, atan(a) = pi/4 + atan((a - 1) / (a
// + 1)).
//
// Valid range: [0, 1]. Maximum error: 1.1e-18 turns, and rounding.
inline double octant_turn(double a) {
    constexpr double tan_eighth_pi = 0.41421356237309503;
    const bool far = a > tan_eighth_pi;
    const double r = far ? (a - 1.0) / (a + 1.0) : a;
    const double z = r * r;
    double s = 0.003250781541643700138;
    s = s * z - 0.006818156084251114821;
    s = s * z + 0.009013840619089403778;
    s = s * z - 0.01055971847362377308;
    s = s * z + 0.01223780673886993493;
    s = s * z - 0.01446831956091054656;
    s = s * z + 0.01768386971358401819;
    s = s * z - 0.02273642011668464112;
    s = s * z + 0.03183098861380221379;
    s = s * z - 0.05305164769726865753;
    s = s * z + 0.1591549430918952785;
    return (far ? 0.125 : 0.0) + s * r;
}

// The angle of (first, second) in turns (Lemma 1; the normalization of Algorithm 1 cancels in the quotient). The zero
// vector, a point orthogonal to the plane of the circle, gets turn 0.
//
// Valid range: finite numbers. Result: in [0, 1].
// Maximum error: 7e-8 turns (float), 1.2e-16 turns (double).
template <Real T>
inline T planar_turn(T first, T second) {
    const T a = std::fabs(first), b = std::fabs(second);
    const T large = a > b ? a : b, small = a > b ? b : a;
    T turn = octant_turn(large > T(0) ? small / large : T(0));
    turn = b > a ? T(0.25) - turn : turn;
    turn = first < T(0) ? T(0.5) - turn : turn;
    return second < T(0) ? T(1) - turn : turn;
}

// A coordinate on the line as a turn in [0, 1]; it rounds to 1 for coordinates just below an integer.
template <Real T>
inline T wrapped_turn(T coordinate) {
    return coordinate - std::floor(coordinate);
}

}  // namespace sphereot
