// One vector register of numbers, for loops that compilers do not vectorize well by themselves: those that hold sums in
// registers, and those with a minimum or maximum, for which GCC makes comparisons and masks.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "support/compiler.hpp"
#include "support/real.hpp"

// Vector types and intrinsics are those of GCC and Clang; other compilers get arrays and loops.
#if defined(__GNUC__) || defined(__clang__)
#define SPHEREOT_VECTORS 1
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#endif

namespace sphereot {

#if defined(__AVX512F__)
constexpr std::size_t register_bytes = 64;
#elif defined(__AVX__)
constexpr std::size_t register_bytes = 32;
#else
constexpr std::size_t register_bytes = 16;
#endif

template <Real T>
struct Lanes {
    static constexpr std::size_t count = register_bytes / sizeof(T);
#if defined(SPHEREOT_VECTORS)
    typedef T Values __attribute__((vector_size(register_bytes)));
    Values values;
    // *this += factor * other
    SPHEREOT_INLINE void add_multiple(T factor, const Lanes& other) { values += factor * other.values; }
    SPHEREOT_INLINE void add_product(const Lanes& a, const Lanes& b) { values += a.values * b.values; }
    friend Lanes operator+(const Lanes& a, T b) { return {a.values + b}; }
    friend Lanes operator+(const Lanes& a, const Lanes& b) { return {a.values + b.values}; }
    friend Lanes operator-(const Lanes& a, T b) { return {a.values - b}; }
    friend Lanes operator-(const Lanes& a, const Lanes& b) { return {a.values - b.values}; }
    friend Lanes operator*(T a, const Lanes& b) { return {a * b.values}; }
    friend Lanes operator*(const Lanes& a, const Lanes& b) { return {a.values * b.values}; }
    // factor * other + last, rounded once where the processor can
    friend Lanes multiply_add(T factor, const Lanes& other, T last) { return {factor * other.values + last}; }
    friend Lanes multiply_add(const Lanes& a, const Lanes& b, T last) { return {a.values * b.values + last}; }
#else
    T values[count];
    void add_multiple(T factor, const Lanes& other) { *this = *this + factor * other; }
    void add_product(const Lanes& a, const Lanes& b) { *this = *this + a * b; }
    friend Lanes operator+(const Lanes& a, T b) { return a + all(b); }
    friend Lanes operator+(const Lanes& a, const Lanes& b) {
        Lanes sum;
        for (std::size_t i = 0; i < count; ++i) sum.values[i] = a.values[i] + b.values[i];
        return sum;
    }
    friend Lanes operator-(const Lanes& a, T b) { return a + all(-b); }
    friend Lanes operator-(const Lanes& a, const Lanes& b) { return a + T(-1) * b; }
    friend Lanes operator*(T a, const Lanes& b) { return all(a) * b; }
    friend Lanes operator*(const Lanes& a, const Lanes& b) {
        Lanes product;
        for (std::size_t i = 0; i < count; ++i) product.values[i] = a.values[i] * b.values[i];
        return product;
    }
    friend Lanes multiply_add(T factor, const Lanes& other, T last) { return factor * other + last; }
    friend Lanes multiply_add(const Lanes& a, const Lanes& b, T last) { return a * b + last; }
#endif
    static Lanes all(T value) {
        T copies[count];
        for (std::size_t i = 0; i < count; ++i) copies[i] = value;
        return read(copies);
    }
    static Lanes read(const T* from) {
        Lanes lanes;
        std::memcpy(&lanes.values, from, sizeof lanes.values);
        return lanes;
    }
    void write(T* to) const { std::memcpy(to, &values, sizeof values); }

    T sum() const {
#if defined(SPHEREOT_VECTORS)
        return sum_of_halves<register_bytes>(values);
#else
        T total = 0;
        for (const T number : values) total += number;
        return total;
#endif
    }

#if defined(SPHEREOT_VECTORS)
private:
    // Halves of a register are added until 16 bytes are left: fewer steps than to add number after number.
    template <std::size_t bytes, typename Vector>
    SPHEREOT_INLINE static T sum_of_halves(Vector vector) {
        if constexpr (bytes > 16) {
            typedef T Half __attribute__((vector_size(bytes / 2)));
            Half halves[2];
            std::memcpy(halves, &vector, bytes);
            return sum_of_halves<bytes / 2>(halves[0] + halves[1]);
        } else {
            T total = vector[0];
            for (std::size_t i = 1; i < 16 / sizeof(T); ++i) total += vector[i];
            return total;
        }
    }
#endif
};

// The larger of a number and a bound, and the smaller one; NaN stays NaN. The variants with a mask, of all lanes, avoid
// a false warning of GCC 12 about the others.
template <Real T>
SPHEREOT_INLINE Lanes<T> at_least(T bound, const Lanes<T>& x) {
#if defined(SPHEREOT_VECTORS) && defined(__AVX512F__)
    if constexpr (std::is_same_v<T, float>) return {_mm512_maskz_max_ps(0xFFFF, _mm512_set1_ps(bound), x.values)};
    else return {_mm512_maskz_max_pd(0xFF, _mm512_set1_pd(bound), x.values)};
#elif defined(SPHEREOT_VECTORS) && defined(__AVX__)
    if constexpr (std::is_same_v<T, float>) return {_mm256_max_ps(_mm256_set1_ps(bound), x.values)};
    else return {_mm256_max_pd(_mm256_set1_pd(bound), x.values)};
#elif defined(SPHEREOT_VECTORS) && defined(__SSE2__)
    if constexpr (std::is_same_v<T, float>) return {_mm_max_ps(_mm_set1_ps(bound), x.values)};
    else return {_mm_max_pd(_mm_set1_pd(bound), x.values)};
#else
    T numbers[Lanes<T>::count];
    x.write(numbers);
    for (T& number : numbers) number = number < bound ? bound : number;
    return Lanes<T>::read(numbers);
#endif
}

template <Real T>
SPHEREOT_INLINE Lanes<T> at_most(T bound, const Lanes<T>& x) {
#if defined(SPHEREOT_VECTORS) && defined(__AVX512F__)
    if constexpr (std::is_same_v<T, float>) return {_mm512_maskz_min_ps(0xFFFF, _mm512_set1_ps(bound), x.values)};
    else return {_mm512_maskz_min_pd(0xFF, _mm512_set1_pd(bound), x.values)};
#elif defined(SPHEREOT_VECTORS) && defined(__AVX__)
    if constexpr (std::is_same_v<T, float>) return {_mm256_min_ps(_mm256_set1_ps(bound), x.values)};
    else return {_mm256_min_pd(_mm256_set1_pd(bound), x.values)};
#elif defined(SPHEREOT_VECTORS) && defined(__SSE2__)
    if constexpr (std::is_same_v<T, float>) return {_mm_min_ps(_mm_set1_ps(bound), x.values)};
    else return {_mm_min_pd(_mm_set1_pd(bound), x.values)};
#else
    T numbers[Lanes<T>::count];
    x.write(numbers);
    for (T& number : numbers) number = number > bound ? bound : number;
    return Lanes<T>::read(numbers);
#endif
}

}  // namespace sphereot
