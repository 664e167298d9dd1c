// The exponential function as a few sums and products, so that loops over it vectorize.
#pragma once

#include <bit>
#include <cstdint>

#include "support/real.hpp"

namespace sphereot {

// exp(x) = 2^k exp(r) with k the integer nearest to x / log 2 and r = x - k log 2.
template <Real T>
struct ExponentialConstants;

template <>
struct ExponentialConstants<float> {
    using Bits = std::uint32_t;
    static constexpr int mantissa_bits = 23, degree = 7;
    static constexpr float rounder = 0x1.8p23f;  // x + rounder has the integer nearest to x in its lowest bits
    static constexpr float log2_high = 0x1.62e4p-1f, log2_low = 0x1.7f7d1cp-20f;
    static constexpr float least = -86.0f, most = 88.0f;
};

template <>
struct ExponentialConstants<double> {
    using Bits = std::uint64_t;
    static constexpr int mantissa_bits = 52, degree = 13;
    static constexpr double rounder = 0x1.8p52;
    static constexpr double log2_high = 0x1.62e42fefa38p-1, log2_low = 0x1.ef35793c7673p-45;
    static constexpr double least = -708.0, most = 709.0;
};

constexpr double factorial(int k) { return k < 2 ? 1.0 : k * factorial(k - 1); }

// The sum over j of r^j / (j + k)!, for j + k up to the degree, by Horner's rule; k = 0 gives exp(r).
template <Real T, int k = 0>
inline T exponential_series(T r) {
    constexpr T first = static_cast<T>(1.0 / factorial(k));
    if constexpr (k == ExponentialConstants<T>::degree) return first;
    else return first + r * exponential_series<T, k + 1>(r);
}

// exp(x).
//
// Valid range: all numbers; below `least` and above `most` the result is that at the limit. NaN gives NaN.
// Maximum error: 2 units in the last place.
template <Real T>
inline T exponential(T x) {
    using C = ExponentialConstants<T>;
    using Bits = typename C::Bits;
    constexpr T log2_e = T(1.4426950408889634074);
    x = x < C::least ? C::least : x;
    x = x > C::most ? C::most : x;
    const T shifted = x * log2_e + C::rounder, k = shifted - C::rounder;
    const T r = (x - k * C::log2_high) - k * C::log2_low;
    const T series = exponential_series(r);
    return std::bit_cast<T>(std::bit_cast<Bits>(series) + (std::bit_cast<Bits>(shifted) << C::mantissa_bits));
}

}  // namespace sphereot
