// Turns on a grid: the circle R/Z as whole numbers.
//
// A turn is kept as a key, a multiple of the spacing that the float type has just below 1. On that grid the
// difference of two turns is exact in floating point, equal points have equal keys, and keys sort by counting.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace sphereot {

template <class T>
struct Grid;

template <>
struct Grid<float> {
    using Key = std::uint32_t;
    static constexpr int bits = 24;

    // Two conversions and no rounding instruction, which the x86-64 baseline lacks: cut to 25 bits, then round the
    // last.
    static Key key(float turn) {
        const auto half_steps = static_cast<Key>(static_cast<std::int32_t>(turn * 33554432.0f));
        return ((half_steps + 1) >> 1) & 0xFFFFFFu;
    }
    static float turn(Key key) { return static_cast<float>(static_cast<std::int32_t>(key)) * (1.0f / 16777216.0f); }
};

template <>
struct Grid<double> {
    using Key = std::uint64_t;
    static constexpr int bits = 52;
    static constexpr Key mask = (Key{1} << bits) - 1;

    // The significand of 1 + turn is the key; a turn that rounds up to 1 becomes 2.0, whose significand is 0.
    static Key key(double turn) { return std::bit_cast<Key>(1.0 + turn) & mask; }
    static double turn(Key key) { return std::bit_cast<double>(key | 0x3FF0000000000000u) - 1.0; }
};

// atan(a) / (2 pi) for a in [0, 1], by polynomials of least absolute error (Remez exchange, 60 digits).
inline float octant_turn(float a) {
    // error 6e-9 turns, a tenth of the grid
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

inline double octant_turn(double a) {
    // error 1e-18 turns on [0, tan(pi/8)]; beyond it atan(a) = pi/4 + atan((a - 1) / (a + 1))
    const bool far = a > 0.41421356237309503;
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

// The angle of (first, second) in turns, in [0, 1] (Lemma 1; the normalization of Algorithm 1 cancels in the quotient).
// The zero vector, a point orthogonal to the plane, gets turn 0.
template <class T>
inline T planar_turn(T first, T second) {
    const T a = std::fabs(first), b = std::fabs(second);
    const T large = a > b ? a : b, small = a > b ? b : a;
    T turn = octant_turn(large > T(0) ? small / large : T(0));
    turn = b > a ? T(0.25) - turn : turn;
    turn = first < T(0) ? T(0.5) - turn : turn;
    return second < T(0) ? T(1) - turn : turn;
}

template <class T>
inline T wrapped_turn(T coordinate) {
    return coordinate - std::floor(coordinate);
}

}  // namespace sphereot
