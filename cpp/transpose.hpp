// Rows of points to rows of coordinates, in square blocks that stay in the nearest cache.
#pragma once

#include <algorithm>
#include <cstddef>

namespace sphereot {

// out (columns, rows) from in (rows, columns).
template <class T>
void transpose(const T* in, std::size_t rows, std::size_t columns, T* out) {
    constexpr std::size_t block = 16;
    for (std::size_t r = 0; r < rows; r += block)
        for (std::size_t c = 0; c < columns; c += block)
            for (std::size_t j = c; j < std::min(c + block, columns); ++j)
                for (std::size_t i = r; i < std::min(r + block, rows); ++i) out[j * rows + i] = in[i * columns + j];
}

}  // namespace sphereot
