// Single-threaded matrix products (gemm): a block of the output is held in vector registers while it is summed.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "slicing/transpose.hpp"
#include "support/lanes.hpp"
#include "support/real.hpp"

namespace sphereot {

#if defined(__AVX512F__)
constexpr std::size_t gemm_rows = 8;
#else
constexpr std::size_t gemm_rows = 4;
#endif

// A view of a row-major matrix.
template <Real T>
struct Matrix {
    T* data;
    std::size_t stride;

    T* at(std::size_t row, std::size_t column) const { return data + row * stride + column; }
    Matrix submatrix(std::size_t row, std::size_t column) const { return {at(row, column), stride}; }
};

// The right factor of a product, (depth, columns), copied to panels of `width` columns: what a block of the output
// reads is contiguous, where in the matrix itself the next row may be a page away. The last panel is padded with zeros.
template <Real T>
class Panels {
public:
    static constexpr std::size_t width = 2 * Lanes<T>::count;

    Panels(std::size_t depth, std::size_t columns)
        : depth_(depth), columns_(columns), values_(std::make_unique_for_overwrite<T[]>(depth * width * count())) {
        if (columns % width != 0) std::fill_n(values_.get() + (count() - 1) * depth * width, depth * width, T(0));
    }

    std::size_t columns() const { return columns_; }
    std::size_t count() const { return (columns_ + width - 1) / width; }

    // Panel c, starting with a row.
    const T* rows(std::size_t c, std::size_t row) const { return values_.get() + (c * depth_ + row) * width; }

    // Copies the first `depth` rows from a matrix (depth, columns).
    void fill(const T* matrix, std::size_t depth) {
        for_each_panel([&](T* panel, std::size_t first, std::size_t inside) {
            for (std::size_t j = 0; j < depth; ++j)
                std::copy_n(matrix + j * columns_ + first, inside, panel + j * width);
        });
    }

    // Copies the transpose of a matrix (columns, depth).
    void fill_transposed(const T* matrix) {
        for_each_panel([&](T* panel, std::size_t first, std::size_t inside) {
            transpose(matrix + first * depth_, depth_, inside, depth_, panel, width);
        });
    }

    // Writes value(row, column) to every element.
    template <std::invocable<std::size_t, std::size_t> Value>
    void fill_with(Value value) {
        for_each_panel([&](T* panel, std::size_t first, std::size_t inside) {
            for (std::size_t j = 0; j < depth_; ++j)
                for (std::size_t i = 0; i < inside; ++i) panel[j * width + i] = value(j, first + i);
        });
    }

private:
    // Calls fill(panel, first_column, number_of_columns) for each panel.
    template <std::invocable<T*, std::size_t, std::size_t> Fill>
    void for_each_panel(Fill fill) {
        for (std::size_t c = 0; c < count(); ++c) {
            T* panel = values_.get() + c * depth_ * width;
            const std::size_t first = c * width, inside = std::min(width, columns_ - first);
            fill(panel, first, inside);
        }
    }

    std::size_t depth_, columns_;
    std::unique_ptr<T[]> values_;
};

// Whether a product is written to its output or added to it.
enum class Accumulate { no, yes };

// out(r, i) = or += sum over j < depth of left(j, r) right(j, i) for `height` rows r and the columns i of one panel.
template <std::size_t height, Real T>
void gemm_block(const T* left, const T* right, std::size_t depth, Matrix<T> out, Accumulate accumulate) {
    constexpr std::size_t lanes = Lanes<T>::count;
    Lanes<T> sums[height][2] = {};
    for (std::size_t j = 0; j < depth; ++j, left += height, right += 2 * lanes) {
        const Lanes<T> one = Lanes<T>::read(right), other = Lanes<T>::read(right + lanes);
        for (std::size_t r = 0; r < height; ++r) {
            sums[r][0].add_multiple(left[r], one);
            sums[r][1].add_multiple(left[r], other);
        }
    }
    // What is in the output is added last: every partial sum would be rounded to its size otherwise.
    for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = 0; c < 2; ++c) {
            T* to = out.at(r, c * lanes);
            if (accumulate == Accumulate::yes) sums[r][c].add_multiple(T(1), Lanes<T>::read(to));
            sums[r][c].write(to);
        }
}

// The same for an output that has fewer columns than the panel.
template <std::size_t height, Real T>
void gemm_last_block(const T* left, const T* right, std::size_t depth, std::size_t columns, Matrix<T> out,
                     Accumulate accumulate) {
    constexpr std::size_t width = Panels<T>::width;
    T padded[height * width] = {};
    if (accumulate == Accumulate::yes)
        for (std::size_t r = 0; r < height; ++r) std::copy_n(out.at(r, 0), columns, padded + r * width);
    gemm_block<height, T>(left, right, depth, {padded, width}, accumulate);
    for (std::size_t r = 0; r < height; ++r) std::copy_n(padded + r * width, columns, out.at(r, 0));
}

// The sum over j of a product is done in steps of this size, so that a panel stays in the L1 cache while all rows use
// it.
constexpr std::size_t gemm_depth = 128;

// Calls handle(row, height) for blocks of rows, with the height as a constant.
template <typename Handle>
void for_each_row_block(std::size_t rows, Handle handle) {
    std::size_t row = 0;
    const auto rows_by = [&]<std::size_t height>(std::integral_constant<std::size_t, height> constant) {
        for (; row + height <= rows; row += height) handle(row, constant);
    };
    rows_by(std::integral_constant<std::size_t, gemm_rows>{});
    rows_by(std::integral_constant<std::size_t, 2>{});
    rows_by(std::integral_constant<std::size_t, 1>{});
}

// Copies left(j, r), for j in [begin, begin + count) and r < rows, in the order in which blocks of a product read it.
template <Real T, std::invocable<std::size_t, std::size_t> Left>
void pack_left_step(std::size_t rows, std::size_t begin, std::size_t count, Left left, T* packed) {
    for_each_row_block(rows, [&](std::size_t row, auto height) {
        T* block = packed + row * count;
        for (std::size_t j = 0; j < count; ++j)
            for (std::size_t r = 0; r < height; ++r) block[j * height + r] = left(begin + j, row + r);
    });
}

// One step of a product: its left factor is `packed`, and its right factor starts at the row `begin`.
template <Real T>
void gemm_step(std::size_t rows, std::size_t begin, std::size_t count, const T* packed, const Panels<T>& right,
               Matrix<T> out, Accumulate accumulate) {
    for (std::size_t c = 0; c < right.count(); ++c) {
        const std::size_t first = c * Panels<T>::width, columns = right.columns() - first;
        for_each_row_block(rows, [&](std::size_t row, auto height) {
            const T *factor = packed + row * count, *panel = right.rows(c, begin);
            if (columns >= Panels<T>::width)
                gemm_block<height, T>(factor, panel, count, out.submatrix(row, first), accumulate);
            else gemm_last_block<height, T>(factor, panel, count, columns, out.submatrix(row, first), accumulate);
        });
    }
}

// A left factor for `gemm_packed`: left(j, r) for j < depth and r < rows.
template <Real T, std::invocable<std::size_t, std::size_t> Left>
std::vector<T> packed_left(std::size_t rows, std::size_t depth, Left left) {
    std::vector<T> packed(rows * depth);
    for (std::size_t begin = 0; begin < depth; begin += gemm_depth)
        pack_left_step(rows, begin, std::min(gemm_depth, depth - begin), left, packed.data() + rows * begin);
    return packed;
}

// out(r, i) = or += sum over j < depth of left(j, r) right(j, i), for r < rows and the columns i of `right`, with a
// left factor that was packed before.
template <Real T>
void gemm_packed(std::size_t rows, std::size_t depth, const std::vector<T>& packed, const Panels<T>& right,
                 Matrix<T> out, Accumulate accumulate) {
    for (std::size_t begin = 0; begin < depth; begin += gemm_depth) {
        if (begin > 0) accumulate = Accumulate::yes;
        const std::size_t count = std::min(gemm_depth, depth - begin);
        gemm_step(rows, begin, count, packed.data() + rows * begin, right, out, accumulate);
    }
}

// The same for a left factor that is used once. For each step it is copied to `copy`, scratch memory that callers keep
// between products.
template <Real T, std::invocable<std::size_t, std::size_t> Left>
void gemm(std::size_t rows, std::size_t depth, Left left, const Panels<T>& right, Matrix<T> out, Accumulate accumulate,
          std::vector<T>& copy) {
    copy.resize(std::max(copy.size(), rows * std::min(depth, gemm_depth)));
    for (std::size_t begin = 0; begin < depth; begin += gemm_depth) {
        if (begin > 0) accumulate = Accumulate::yes;
        const std::size_t count = std::min(gemm_depth, depth - begin);
        pack_left_step(rows, begin, count, left, copy.data());
        gemm_step(rows, begin, count, copy.data(), right, out, accumulate);
    }
}

}  // namespace sphereot
