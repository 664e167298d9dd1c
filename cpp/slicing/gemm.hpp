// Products of small matrices inside a thread: a block of sums is held in vector registers while the factors pass by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "slicing/transpose.hpp"

namespace sphereot {

#if defined(__AVX512F__)
constexpr std::size_t register_bytes = 64, product_rows = 8;
#elif defined(__AVX__)
constexpr std::size_t register_bytes = 32, product_rows = 4;
#else
constexpr std::size_t register_bytes = 16, product_rows = 4;
#endif

// The numbers of one vector register.
template <class T>
struct Lanes {
    static constexpr std::size_t count = register_bytes / sizeof(T);
#if defined(__GNUC__) || defined(__clang__)
    typedef T Values __attribute__((vector_size(register_bytes)));
    Values values;
    void add_multiple(T factor, const Lanes& other) { values += factor * other.values; }
#else
    T values[count];
    void add_multiple(T factor, const Lanes& other) {
        for (std::size_t i = 0; i < count; ++i) values[i] += factor * other.values[i];
    }
#endif
    static Lanes read(const T* from) {
        Lanes lanes;
        std::memcpy(&lanes.values, from, sizeof lanes.values);
        return lanes;
    }
    void write(T* to) const { std::memcpy(to, &values, sizeof values); }
};

// A matrix in memory, row after row.
template <class T>
struct Matrix {
    T* data;
    std::size_t stride;

    T* at(std::size_t row, std::size_t column) const { return data + row * stride + column; }
    Matrix from(std::size_t row, std::size_t column) const { return {at(row, column), stride}; }
};

// The right factor of a product, copied to panels as wide as a block of sums: what a block reads lies side by side,
// where in the matrix itself the next row may be a page away. The last panel is filled up with zeros.
template <class T>
class Panels {
public:
    static constexpr std::size_t width = 2 * Lanes<T>::count;

    Panels(std::size_t depth, std::size_t columns)
        : depth_(depth), columns_(columns), values_(std::make_unique_for_overwrite<T[]>(depth * width * count())) {
        if (columns % width != 0) std::fill_n(values_.get() + (count() - 1) * depth * width, depth * width, T(0));
    }

    std::size_t columns() const { return columns_; }
    std::size_t count() const { return (columns_ + width - 1) / width; }

    // Panel c from a row on.
    const T* rows(std::size_t c, std::size_t row) const { return values_.get() + (c * depth_ + row) * width; }

    // Copies the first `depth` rows of (depth, columns).
    void fill(const T* matrix, std::size_t depth) {
        for_each_panel([&](T* panel, std::size_t first, std::size_t inside) {
            for (std::size_t j = 0; j < depth; ++j)
                std::copy_n(matrix + j * columns_ + first, inside, panel + j * width);
        });
    }

    // Copies the transpose of (columns, depth).
    void fill_transposed(const T* matrix) {
        for_each_panel([&](T* panel, std::size_t first, std::size_t inside) {
            transpose(matrix + first * depth_, depth_, inside, depth_, panel, width);
        });
    }

private:
    // fill(panel, first column, number of columns)
    template <class Fill>
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

enum class Into { new_sum, old_sum };

// out(r, i) = or += sum over j < depth of left(j, r) right(j, i), for a block of rows r and the columns i of a panel.
template <std::size_t height, class T>
void multiply_block(const T* left, const T* right, std::size_t depth, Matrix<T> out, Into into) {
    constexpr std::size_t lanes = Lanes<T>::count;
    Lanes<T> sums[height][2] = {};
    for (std::size_t j = 0; j < depth; ++j, left += height, right += 2 * lanes) {
        const Lanes<T> one = Lanes<T>::read(right), other = Lanes<T>::read(right + lanes);
        for (std::size_t r = 0; r < height; ++r) {
            sums[r][0].add_multiple(left[r], one);
            sums[r][1].add_multiple(left[r], other);
        }
    }
    // Added at the end, an old sum does not round every step of the new one.
    for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = 0; c < 2; ++c) {
            T* to = out.at(r, c * lanes);
            if (into == Into::old_sum) sums[r][c].add_multiple(T(1), Lanes<T>::read(to));
            sums[r][c].write(to);
        }
}

// The same where the output has fewer columns than the panel.
template <std::size_t height, class T>
void multiply_last_block(const T* left, const T* right, std::size_t depth, std::size_t columns, Matrix<T> out,
                         Into into) {
    constexpr std::size_t width = Panels<T>::width;
    T whole[height * width] = {};
    if (into == Into::old_sum)
        for (std::size_t r = 0; r < height; ++r) std::copy_n(out.at(r, 0), columns, whole + r * width);
    multiply_block<height, T>(left, right, depth, {whole, width}, into);
    for (std::size_t r = 0; r < height; ++r) std::copy_n(whole + r * width, columns, out.at(r, 0));
}

// out(r, i) = or += sum over j < depth of left(j, r) right(j, i). The left factor is copied too (to `copy`, which
// callers keep for the next time), so many steps of the sum at once: a panel stays in the nearest cache while all rows
// pass by.
template <class T, class Left>
void multiply(std::size_t rows, std::size_t depth, Left left, const Panels<T>& right, Matrix<T> out, Into into,
              std::vector<T>& copy) {
    constexpr std::size_t steps = 128;
    copy.resize(std::max(copy.size(), rows * std::min(depth, steps)));
    for (std::size_t begin = 0; begin < depth; begin += steps, into = Into::old_sum) {
        const std::size_t count = std::min(steps, depth - begin);
        // Rows in blocks of constant height: handle(row, height) for each.
        const auto for_each_block = [rows](auto handle) {
            std::size_t row = 0;
            const auto rows_by = [&]<std::size_t height>(std::integral_constant<std::size_t, height> constant) {
                for (; row + height <= rows; row += height) handle(row, constant);
            };
            rows_by(std::integral_constant<std::size_t, product_rows>{});
            rows_by(std::integral_constant<std::size_t, 2>{});
            rows_by(std::integral_constant<std::size_t, 1>{});
        };
        for_each_block([&](std::size_t row, auto height) {
            T* block = copy.data() + row * count;
            for (std::size_t j = 0; j < count; ++j)
                for (std::size_t r = 0; r < height; ++r) block[j * height + r] = left(begin + j, row + r);
        });
        for (std::size_t c = 0; c < right.count(); ++c) {
            const std::size_t first = c * Panels<T>::width, columns = right.columns() - first;
            for_each_block([&](std::size_t row, auto height) {
                const T *factor = copy.data() + row * count, *panel = right.rows(c, begin);
                if (columns >= Panels<T>::width)
                    multiply_block<height, T>(factor, panel, count, out.from(row, first), into);
                else multiply_last_block<height, T>(factor, panel, count, columns, out.from(row, first), into);
            });
        }
    }
}

}  // namespace sphereot
