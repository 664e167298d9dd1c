// Sums in a fixed order, which does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include "support/real.hpp"

namespace sphereot {

// The sum of term(i) for i in [0, n). Within a block the sum is vectorized (the pragma allows it); blocks are added in
// double precision, before a float32 sum loses digits.
template <Real T, std::invocable<std::size_t> Term>
inline double sum(std::size_t n, Term term) {
    constexpr std::size_t block = 1024;
    double total = 0.0;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(begin + block, n);
        T partial = T(0);
#pragma omp simd reduction(+ : partial)
        for (std::size_t i = begin; i < end; ++i) partial += term(i);
        total += static_cast<double>(partial);
    }
    return total;
}

}  // namespace sphereot
