// Turns of planar points as integers, the same bits in every build of the kernel.
//
// This function is compiled by itself, without contraction of products and sums (see CMakeLists.txt): every operation
// is rounded once, as in IEEE 754, for any instruction set. The NumPy code in
// sphereot/_backends/array_api/sketches.py has the same operations in the same order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sphereot {

// An integer turn is a multiple of 2^-31 turns, in [0, 2^31).
inline constexpr int turn_bits = 31;

// turns[i]: the angle of (first[i], second[i]); squares[i]: the squared length.
//
// Valid range: finite numbers whose squares are normal floats, or 0; the zero vector gets turn 0.
// Maximum error of a turn: 2^-25 turns.
void integer_turns(const double* first, const double* second, std::size_t count, std::uint32_t* turns, float* squares);

}  // namespace sphereot
