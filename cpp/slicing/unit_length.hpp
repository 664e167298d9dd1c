// Test for points of unit length.
#pragma once

#include <cmath>
#include <cstddef>

#include "support/real.hpp"
#include "support/sum.hpp"

namespace sphereot {

// Whether the squared length of every row of (rows, dim) is within `tolerance` of 1. Rows with NaN are not.
template <Real T>
bool have_unit_length(const T* points, std::size_t rows, std::size_t dim, double tolerance) {
    bool all = true;
    for (std::size_t r = 0; r < rows; ++r, points += dim) {
        const double square = sum<T>(dim, [=](std::size_t k) { return points[k] * points[k]; });
        all &= std::fabs(square - 1.0) <= tolerance;
    }
    return all;
}

}  // namespace sphereot
