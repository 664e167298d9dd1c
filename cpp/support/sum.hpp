// Sums in one fixed order, whatever the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>

namespace sphereot {

// sum of term(i) for i in [0, n). Inside a block the compiler may fill vector registers with running sums (the pragma
// says so); blocks are added up as doubles, before a float32 sum could lose digits.
template <class T, class Term>
inline double sum(std::size_t n, Term term) {
    constexpr std::size_t block = 1024;
    double total = 0.0;
    for (std::size_t begin = 0; begin < n; begin += block) {
        const std::size_t end = std::min(begin + block, n);
        T part = T(0);
#pragma omp simd reduction(+ : part)
        for (std::size_t i = begin; i < end; ++i) part += term(i);
        total += static_cast<double>(part);
    }
    return total;
}

}  // namespace sphereot
