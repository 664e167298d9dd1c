// The gradient of a turn in the planar point, bounded where the point has no direction on the circle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numbers>

#include "support/real.hpp"

namespace sphereot {

// A point whose projection has at most this squared length is orthogonal to the plane, to rounding.
template <Real T>
inline constexpr T orthogonal_square = 64 * std::numeric_limits<T>::epsilon() * std::numeric_limits<T>::epsilon();

// The squared length of a projection below which the length of the gradient is limited.
template <Real T>
inline constexpr T least_square = T(0x1p-40);

static_assert(orthogonal_square<float> <= least_square<float> && orthogonal_square<double> <= least_square<double>);

// Writes the gradient (d1, d2) in planar points q from that in their turns, times `share`.
//
// The gradient of the turn is (-q_2, q_1) / (2 pi |q|^2). A point orthogonal to the plane has no direction on the
// circle: its gradient is 0. For |q| < 2^-20 the gradient is that at |q| = 2^-20 times 2^20 |q|, so that it is never
// longer than 2^20 / (2 pi): the exact one is valid only for steps shorter than |q|, and |q| is mere rounding in single
// precision.
template <Real T>
void planar_gradient(const T* q1, const T* q2, const T* dturn, std::size_t count, double share, T* d1, T* d2) {
    const T turns_per_radian = static_cast<T>(share * 0.5 / std::numbers::pi);
    for (std::size_t i = 0; i < count; ++i) {
        const T along = q1[i], across = q2[i], square = along * along + across * across;
        const T scale =
            square > orthogonal_square<T> ? turns_per_radian * dturn[i] / std::max(square, least_square<T>) : T(0);
        d1[i] = -across * scale;
        d2[i] = along * scale;
    }
}

}  // namespace sphereot
