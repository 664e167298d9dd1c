// Sums of weights in integers of two limbs, so that they are exact and do not depend on the order of the points.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sphereot {

// Masses of weighted points have two limbs: high 2^-16 + low 2^-64 with low < 2^48.
inline constexpr int limb_bits = 48;
inline constexpr std::uint64_t limb_mask = (std::uint64_t{1} << limb_bits) - 1;

// Moves what exceeds the low limbs to the high limbs.
inline void carry_limbs(std::uint64_t* high, std::uint64_t* low, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
        high[j] += low[j] >> limb_bits;
        low[j] &= limb_mask;
    }
}

}  // namespace sphereot
