// The natural logarithm as a few sums and products, so that loops over it vectorize.
#pragma once

#include <bit>
#include <cstdint>

#include "support/real.hpp"

namespace sphereot {

// log(x) = e log 2 + log m with m from 1/sqrt(2) to sqrt(2), and log m = 2 artanh(s) with s = (m - 1) / (m + 1).
template <Real T>
struct LogarithmConstants;

template <>
struct LogarithmConstants<float> {
    using Bits = std::uint32_t;
    using Signed = std::int32_t;
    static constexpr int mantissa_bits = 23, terms = 5;
    static constexpr Bits inverse_root_2 = 0x3F3504F3u;  // the bits of 1/sqrt(2)
};

template <>
struct LogarithmConstants<double> {
    using Bits = std::uint64_t;
    using Signed = std::int64_t;
    static constexpr int mantissa_bits = 52, terms = 12;
    static constexpr Bits inverse_root_2 = 0x3FE6A09E667F3BCDu;
};

// The sum over j >= k of q^(j - k) / (2 j + 1), up to the last term: for k = 0, artanh(s) / s at q = s^2.
template <Real T, int k = 0>
inline T artanh_series(T q) {
    constexpr T first = T(1) / T(2 * k + 1);
    if constexpr (k + 1 == LogarithmConstants<T>::terms) return first;
    else return first + q * artanh_series<T, k + 1>(q);
}

// log(x).
//
// Valid range: positive normal numbers. Maximum error: 1.5e-7 |log x| + 1e-7 (float), 2.5e-16 |log x| + 2e-16 (double).
template <Real T>
inline T logarithm(T x) {
    using C = LogarithmConstants<T>;
    using Bits = typename C::Bits;
    constexpr Bits mantissa_mask = (Bits{1} << C::mantissa_bits) - 1;
    constexpr T log_2 = T(0.69314718055994530942);
    const Bits bits = std::bit_cast<Bits>(x) - C::inverse_root_2;
    const T e = static_cast<T>(static_cast<typename C::Signed>(bits) >> C::mantissa_bits);
    const T m = std::bit_cast<T>((bits & mantissa_mask) + C::inverse_root_2);
    const T s = (m - T(1)) / (m + T(1));
    return e * log_2 + T(2) * s * artanh_series(s * s);
}

}  // namespace sphereot
