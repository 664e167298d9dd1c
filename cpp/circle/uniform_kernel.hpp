// The kernel K_d of SSW_2 to the uniform distribution, and its derivative, from half chords between points.
//
// With h^2 = |x - y|^2 / 4, the angle gamma = 2 pi g of the two points and z = sin^2 gamma,
//
//     K_d = 1/12 - g/2 + g^2/2 + D_d(z) / (8 pi^2),    D_d(z) = z (P(2 z - 1) + R(2 z - 1) log z),
//
// which is the sum of an odd part 1/16 - g/4 and an even part 1/48 - g/4 + g^2/2 + D_d(z) / (8 pi^2). The even part
// has a weight. Here the polynomials P and R depend on the dimension d (docs/background/uniformity.md).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "circle/grid.hpp"
#include "support/compiler.hpp"
#include "support/log.hpp"
#include "support/real.hpp"

namespace sphereot {

template <Real T>
struct UniformKernel {
    static constexpr std::size_t smooth_terms = std::is_same_v<T, float> ? 5 : 9;
    static constexpr std::size_t logarithmic_terms = std::is_same_v<T, float> ? 4 : 8;

    // Coefficients of P and R over 8 pi^2, constant term first.
    std::array<T, smooth_terms> smooth;
    std::array<T, logarithmic_terms> logarithmic;

    T even_weight = T(1);

    struct Value {
        T kernel, derivative;
    };

    // The value at equal points.
    double at_zero() const { return 1.0 / 12 + (static_cast<double>(even_weight) - 1.0) / 48; }

    // K_d with its even part times the weight, and its derivative by the cosine of the angle: infinite at equal and at opposite points, and 0 is given
    // there.
    //
    // Valid range: all numbers; those outside [0, 1] count as the nearer end.
    // Maximum error of K_d: 5e-8 (float), 2e-16 (double). Relative error of the derivative: 1e-6, 1e-14.
    template <bool with_derivative>
    SPHEREOT_INLINE Value operator()(T half_chord_square) const {
        constexpr T pi = T(3.14159265358979323846);
        // So small that it changes nothing, and large enough for the logarithm of z.
        constexpr T least = std::numeric_limits<T>::min() * T(1 << 20);
        const bool far = half_chord_square > T(0.5);
        const T nearer = far ? T(1) - half_chord_square : half_chord_square;
        const bool inside = nearer > T(0);
        const T v = nearer > least ? nearer : least, w = T(1) - v;
        const T g = T(2) * octant_turn(std::sqrt(v / w));  // from the nearer end, in turns
        const T z = T(4) * v * w, u = T(2) * z - T(1), log_z = logarithm(z);
        T p = smooth[smooth_terms - 1], p_slope = T(0);
        for (std::size_t k = smooth_terms - 1; k-- > 0;) {
            if constexpr (with_derivative) p_slope = p_slope * u + p;
            p = p * u + smooth[k];
        }
        T r = logarithmic[logarithmic_terms - 1], r_slope = T(0);
        for (std::size_t k = logarithmic_terms - 1; k-- > 0;) {
            if constexpr (with_derivative) r_slope = r_slope * u + r;
            r = r * u + logarithmic[k];
        }
        const T variance = p + r * log_z;
        const T end = (far ? T(-1.0 / 24) : T(1.0 / 12)) + (even_weight - T(1)) / T(48);
        const T rise = T(0.5) * g * g + z * variance;
        const T linear = T(0.25) * (far ? even_weight - T(1) : even_weight + T(1));
        const T value = end - (linear * g - even_weight * rise);
        T derivative = T(0);
        if constexpr (with_derivative) {
            // For a weight of 1, dK/dcos = (1/2 - g) / (2 pi sin gamma) - 2 cos gamma dD/dz, with D over 8 pi^2.
            const T slope = variance + r + T(2) * z * (p_slope + r_slope * log_z);
            const T cosine = far ? T(2) * v - T(1) : T(1) - T(2) * v;
            const T supplement = far ? even_weight * g - linear : linear - even_weight * g;
            derivative = supplement / (T(2) * pi * std::sqrt(z)) - T(2) * even_weight * cosine * slope;
        }
        return {inside ? value : end, inside ? derivative : T(0)};
    }
};

}  // namespace sphereot
