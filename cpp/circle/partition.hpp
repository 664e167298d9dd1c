// Stable partition of an array by labels. Compilers do not vectorize it; AVX-512 has an instruction for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/real.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define SPHEREOT_HAS_COMPRESS 1
#endif

namespace sphereot {

// How many elements past its end an output of `partition_by_label` may be written to.
inline constexpr std::size_t partition_slack = 16;

#ifdef SPHEREOT_HAS_COMPRESS
// Writes the values of one register whose label has a bit of `bit` to `set`, the others to `unset`; returns how many
// have it. Whole registers are stored, since masked stores are slow on some processors; later blocks overwrite the
// rest.
inline std::size_t partition_block(const float* values, const std::uint8_t* labels, char bit, float* set,
                                   float* unset) {
    const __m512 block = _mm512_loadu_ps(values);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(labels));
    const __mmask16 chosen = _mm_test_epi8_mask(bytes, _mm_set1_epi8(bit));
    _mm512_storeu_ps(set, _mm512_maskz_compress_ps(chosen, block));
    _mm512_storeu_ps(unset, _mm512_maskz_compress_ps(_knot_mask16(chosen), block));
    return static_cast<std::size_t>(__builtin_popcount(chosen));
}

inline std::size_t partition_block(const double* values, const std::uint8_t* labels, char bit, double* set,
                                   double* unset) {
    const __m512d block = _mm512_loadu_pd(values);
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(labels));
    const auto chosen = static_cast<__mmask8>(_mm_test_epi8_mask(bytes, _mm_set1_epi8(bit)));
    _mm512_storeu_pd(set, _mm512_maskz_compress_pd(chosen, block));
    _mm512_storeu_pd(unset, _mm512_maskz_compress_pd(static_cast<__mmask8>(~chosen), block));
    return static_cast<std::size_t>(__builtin_popcount(chosen));
}
#endif

// Copies the values whose label has bit b to `set`, the others to `unset`, both in order. Requires room for
// `partition_slack` more elements in both.
template <Real T>
void partition_by_label(const T* values, const std::uint8_t* labels, unsigned b, std::size_t n, T* set, T* unset) {
    std::size_t i = 0;
#ifdef SPHEREOT_HAS_COMPRESS
    constexpr std::size_t lanes = sizeof(__m512) / sizeof(T);
    static_assert(lanes <= partition_slack);
    for (; i + lanes <= n; i += lanes) {
        const std::size_t chosen = partition_block(values + i, labels + i, static_cast<char>(1u << b), set, unset);
        set += chosen;
        unset += lanes - chosen;
    }
#endif
    for (; i < n; ++i) {  // without a branch: each value is written to both, and one of the two advances
        const std::size_t chosen = (labels[i] >> b) & 1u;
        *set = values[i];
        *unset = values[i];
        set += chosen;
        unset += 1 - chosen;
    }
}

}  // namespace sphereot
