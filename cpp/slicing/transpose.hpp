// Matrix transpose.
#pragma once

#include <algorithm>
#include <cstddef>

#include "support/real.hpp"

namespace sphereot {

// out(c, r) = in(r, c) for an input (rows, columns); strides are the distances between rows. The arrays must not
// overlap.
//
// Squares go through registers. The number of rows that are done at a time is limited, so that a cache line that was
// loaded for one column is still in the cache for the next.
template <Real T>
void transpose(const T* in, std::size_t in_stride, std::size_t rows, std::size_t columns, T* out,
               std::size_t out_stride) {
    constexpr std::size_t square = 4, rows_at_a_time = 64;
    const auto copy_column = [=](std::size_t r, std::size_t end, std::size_t c) {
        for (; r < end; ++r) out[c * out_stride + r] = in[r * in_stride + c];
    };
    for (std::size_t begin = 0; begin < rows; begin += rows_at_a_time) {
        const std::size_t end = std::min(begin + rows_at_a_time, rows);
        std::size_t c = 0;
        for (; c + square <= columns; c += square) {
            std::size_t r = begin;
            for (; r + square <= end; r += square) {
                T values[square][square];
                for (std::size_t i = 0; i < square; ++i)
                    for (std::size_t j = 0; j < square; ++j) values[j][i] = in[(r + i) * in_stride + c + j];
                for (std::size_t j = 0; j < square; ++j)
                    for (std::size_t i = 0; i < square; ++i) out[(c + j) * out_stride + r + i] = values[j][i];
            }
            for (std::size_t j = 0; j < square; ++j) copy_column(r, end, c + j);
        }
        for (; c < columns; ++c) copy_column(begin, end, c);
    }
}

}  // namespace sphereot
