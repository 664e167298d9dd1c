// Powers of two as a few sums and products, so that loops over them vectorize.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "support/compiler.hpp"
#include "support/lanes.hpp"
#include "support/real.hpp"

namespace sphereot {

// 2^x = 2^k 2^r with k the integer nearest to x and r = x - k. The polynomial has the least relative error for 2^r on
// [-1/2, 1/2]; its coefficients, the highest first, are by tools/fit_polynomials.py.
template <Real T>
struct PowerConstants;

template <>
struct PowerConstants<float> {
    using Bits = std::uint32_t;
    static constexpr int mantissa_bits = 23;
    static constexpr float rounder = 0x1.8p23f;  // x + rounder has the integer nearest to x in its lowest bits
    static constexpr float least = -125.0f, most = 127.0f;
    static constexpr float polynomial[] = {0.000153457884180f, 0.00133999321015f, 0.00961848906854f, 0.0555032877377f,
                                           0.240226468891f,    0.693147205740f,   1.00000000055f};
};

template <>
struct PowerConstants<double> {
    using Bits = std::uint64_t;
    static constexpr int mantissa_bits = 52;
    static constexpr double rounder = 0x1.8p52;
    static constexpr double least = -1021.0, most = 1023.0;
    static constexpr double polynomial[] = {
        4.435285017207651730e-10,  7.074105706066400400e-9,  1.017819799848742867e-7, 1.321543308899367607e-6,
        0.00001525273349006910064, 0.0001540353046251625803, 0.001333355814678980095, 0.009618129107588333190,
        0.05550410866481992237,    0.2402265069591015621,    0.6931471805599453304,   0.9999999999999999971};
};

constexpr double log2_e = 1.4426950408889634074;  // exp(x) = 2^(log2_e x)

constexpr double factorial(int k) { return k < 2 ? 1.0 : k * factorial(k - 1); }

// series times 2^k, with k in the lowest bits of `shifted`: k is added to the exponent of the number.
template <Real T>
SPHEREOT_INLINE Lanes<T> scaled_by_low_bits(const Lanes<T>& series, const Lanes<T>& shifted) {
    using C = PowerConstants<T>;
    using Bits = typename C::Bits;
#if defined(SPHEREOT_VECTORS)
    typedef Bits BitLanes __attribute__((vector_size(register_bytes)));
    using Values = typename Lanes<T>::Values;
    const BitLanes bits = std::bit_cast<BitLanes>(series.values);
    return {std::bit_cast<Values>(bits + (std::bit_cast<BitLanes>(shifted.values) << C::mantissa_bits))};
#else
    Lanes<T> product;
    for (std::size_t i = 0; i < Lanes<T>::count; ++i)
        product.values[i] = std::bit_cast<T>(std::bit_cast<Bits>(series.values[i]) +
                                             (std::bit_cast<Bits>(shifted.values[i]) << C::mantissa_bits));
    return product;
#endif
}

// Replaces the numbers x in `count` registers by 2^x.
//
// Valid range: all numbers; below `least` and above `most` the result is that at the limit. NaN gives NaN if the low
// half of its bits is 0, as in the NaN of arithmetic: k comes from the lowest bits. Maximum error: 2 units in the last
// place. The registers go through the steps side by side: each step waits for the one before, and a register alone
// would leave the processor idle.
template <std::size_t count, Real T>
SPHEREOT_INLINE void powers_of_two(Lanes<T> (&x)[count]) {
    using C = PowerConstants<T>;
    Lanes<T> shifted[count], series[count];
    for (std::size_t i = 0; i < count; ++i) x[i] = at_most(C::most, at_least(C::least, x[i]));
    for (std::size_t i = 0; i < count; ++i) shifted[i] = x[i] + C::rounder;
    for (std::size_t i = 0; i < count; ++i) x[i] = x[i] - (shifted[i] - C::rounder);
    for (std::size_t i = 0; i < count; ++i) series[i] = multiply_add(C::polynomial[0], x[i], C::polynomial[1]);
    for (std::size_t j = 2; j < std::size(C::polynomial); ++j)
        for (std::size_t i = 0; i < count; ++i) series[i] = multiply_add(series[i], x[i], C::polynomial[j]);
    for (std::size_t i = 0; i < count; ++i) x[i] = scaled_by_low_bits(series[i], shifted[i]);
}

}  // namespace sphereot
