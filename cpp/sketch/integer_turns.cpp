// Compiled without contraction of products and sums. It includes no header with code: a function that another file
// compiles with contraction would be linked once for both.
#include "sketch/integer_turns.hpp"

namespace sphereot {

namespace {

// atan(a) / (2 pi) on [0, 1], with the polynomial of circle/grid.hpp. Error: 6e-9 turns, and rounding.
float octant(float a) {
    const float z = a * a;
    float s = -0x1.5253dcp-11f;
    s = s * z + 0x1.c8148cp-9f;
    s = s * z - 0x1.23982ap-7f;
    s = s * z + 0x1.f6dc14p-7f;
    s = s * z - 0x1.6aae4cp-6f;
    s = s * z + 0x1.041014p-5f;
    s = s * z - 0x1.b28dc8p-5f;
    s = s * z + 0x1.45f2f8p-3f;
    return s * a;
}

}  // namespace

void integer_turns(const double* first, const double* second, std::size_t count, std::uint32_t* turns, float* squares) {
    constexpr std::int32_t quarter = std::int32_t{1} << (turn_bits - 2), half = std::int32_t{1} << (turn_bits - 1);
    constexpr std::uint32_t whole = std::uint32_t{1} << turn_bits;
    for (std::size_t i = 0; i < count; ++i) {
        const auto x = static_cast<float>(first[i]), y = static_cast<float>(second[i]);
        const float a = x < 0.0f ? -x : x, b = y < 0.0f ? -y : y;
        const float large = a > b ? a : b, small = a > b ? b : a;
        const float ratio = large > 0.0f ? small / large : 0.0f;
        auto turn = static_cast<std::int32_t>(octant(ratio) * static_cast<float>(whole));
        turn = b > a ? quarter - turn : turn;
        turn = x < 0.0f ? half - turn : turn;
        const auto folded = static_cast<std::uint32_t>(turn);
        turns[i] = (y < 0.0f ? whole - folded : folded) & (whole - 1);
        squares[i] = x * x + y * y;
    }
}

}  // namespace sphereot
