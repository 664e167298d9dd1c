// Products of small matrices inside a thread: a block of sums is held in vector registers while the factors pass by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

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

// The left factor is copied in panels of so many steps of the sum, in the order in which blocks read it: in its own place
// its rows may lie a page apart, and fight for the same lines of the cache.
constexpr std::size_t panel_depth = 128;

enum class Into { new_sum, old_sum };

// out(r, i) = or += sum over j < depth of panel(j, r) right(j, i), for a block of rows r and columns i of constant size.
template <std::size_t height, std::size_t width, class T>
void multiply_block(const T* panel, std::size_t depth, Matrix<const T> right, Matrix<T> out, Into into) {
    constexpr std::size_t lanes = Lanes<T>::count;
    Lanes<T> sums[height][width] = {};
    if (into == Into::old_sum)
        for (std::size_t r = 0; r < height; ++r)
            for (std::size_t c = 0; c < width; ++c) sums[r][c] = Lanes<T>::read(out.at(r, c * lanes));
    for (std::size_t j = 0; j < depth; ++j) {
        Lanes<T> factors[width];
        for (std::size_t c = 0; c < width; ++c) factors[c] = Lanes<T>::read(right.at(j, c * lanes));
        for (std::size_t r = 0; r < height; ++r)
            for (std::size_t c = 0; c < width; ++c) sums[r][c].add_multiple(panel[j * height + r], factors[c]);
    }
    for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = 0; c < width; ++c) sums[r][c].write(out.at(r, c * lanes));
}

template <std::size_t height, class T>
void multiply_panel(const T* panel, std::size_t columns, std::size_t depth, Matrix<const T> right, Matrix<T> out,
                    Into into) {
    constexpr std::size_t lanes = Lanes<T>::count;
    std::size_t i = 0;
    for (; i + 2 * lanes <= columns; i += 2 * lanes)
        multiply_block<height, 2>(panel, depth, right.from(0, i), out.from(0, i), into);
    for (; i + lanes <= columns; i += lanes)
        multiply_block<height, 1>(panel, depth, right.from(0, i), out.from(0, i), into);
    for (; i < columns; ++i)
        for (std::size_t r = 0; r < height; ++r) {
            T sum = into == Into::old_sum ? *out.at(r, i) : T(0);
            for (std::size_t j = 0; j < depth; ++j) sum += panel[j * height + r] * *right.at(j, i);
            *out.at(r, i) = sum;
        }
}

// out(r, i) = or += sum over j < depth of left(j, r) right(j, i).
template <class T, class Left>
void multiply(std::size_t rows, std::size_t columns, std::size_t depth, Left left, Matrix<const T> right, Matrix<T> out,
              Into into = Into::new_sum) {
    T panel[panel_depth * product_rows];
    for (std::size_t begin = 0; begin < depth; begin += panel_depth, into = Into::old_sum) {
        const std::size_t count = std::min(panel_depth, depth - begin);
        std::size_t row = 0;
        const auto rows_by = [&]<std::size_t height>(std::integral_constant<std::size_t, height>) {
            for (; row + height <= rows; row += height) {
                for (std::size_t j = 0; j < count; ++j)
                    for (std::size_t r = 0; r < height; ++r) panel[j * height + r] = left(begin + j, row + r);
                multiply_panel<height>(panel, columns, count, right.from(begin, 0), out.from(row, 0), into);
            }
        };
        rows_by(std::integral_constant<std::size_t, product_rows>{});
        rows_by(std::integral_constant<std::size_t, 2>{});
        rows_by(std::integral_constant<std::size_t, 1>{});
    }
}

}  // namespace sphereot
