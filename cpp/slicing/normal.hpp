// Counter-based normal random numbers in single precision: each is a function of the seed and its index only, so that
// threads can draw them in any order, and loops over them vectorize.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace sphereot {

// SplitMix64 (Steele, Lea and Flood, 2014): a hash of a counter, 64 random bits.
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
    std::uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// log(x): x = 2^e m with m from 1/sqrt(2) to sqrt(2), and log m by its Taylor series in s = (m - 1) / (m + 1).
//
// Valid range: positive normal numbers. Maximum error: 1.5e-7 |log x| + 1e-7.
inline float fast_log(float x) {
    constexpr int mantissa_bits = 23;
    constexpr std::uint32_t mantissa_mask = (1u << mantissa_bits) - 1, least_m = 0x3F3504F3u;  // the bits of 1/sqrt(2)
    constexpr float log_2 = 0.69314718056f;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) - least_m;
    const float e = static_cast<float>(static_cast<std::int32_t>(bits) >> mantissa_bits);
    const float m = std::bit_cast<float>((bits & mantissa_mask) + least_m);
    const float s = (m - 1.0f) / (m + 1.0f), q = s * s;
    return e * log_2 + 2.0f * s * (1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q * (1.0f / 9)))));
}

// Two independent normal numbers by the method of Box and Muller. Of the upper 32 random bits, 29 give an angle in an
// eighth of the circle and the other three say in which eighth, so that Taylor series of sine and cosine suffice.
struct NormalPair {
    float first, second;

    NormalPair(std::uint64_t seed, std::uint64_t counter) {
        constexpr float quarter_pi = 0.78539816340f;
        const std::uint64_t bits = random_bits(seed, counter);
        const auto low = static_cast<std::uint32_t>(bits), high = static_cast<std::uint32_t>(bits >> 32);
        const float uniform = (static_cast<float>(low >> 1) + 0.5f) * 0x1p-31f;  // in (0, 1]: never 0
        const float radius = std::sqrt(-2.0f * fast_log(uniform));
        const float angle = static_cast<float>(high >> 3) * (0x1p-29f * quarter_pi), q = angle * angle;
        const float sine =
            angle * (1.0f + q * (-1.0f / 6 + q * (1.0f / 120 + q * (-1.0f / 5040 + q * (1.0f / 362880)))));
        const float cosine = 1.0f + q * (-1.0f / 2 + q * (1.0f / 24 + q * (-1.0f / 720 + q * (1.0f / 40320))));
        const bool swapped = high & 1u;
        const float one = radius * (swapped ? sine : cosine), other = radius * (swapped ? cosine : sine);
        first = std::bit_cast<float>(std::bit_cast<std::uint32_t>(one) ^ ((high & 2u) << 30));
        second = std::bit_cast<float>(std::bit_cast<std::uint32_t>(other) ^ ((high & 4u) << 29));
    }
};

}  // namespace sphereot
