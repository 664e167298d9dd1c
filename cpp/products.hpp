// Products of small matrices inside a thread: a block of sums is held in vector registers while the factors pass by.
#pragma once

#include <cstddef>
#include <cstring>

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
};

// out(r, i) += sum over j < depth of left(j, r) right(j, i), for a block of rows r and columns i of constant size.
template <std::size_t height, std::size_t width, class T, class Left>
void add_block(std::size_t row, std::size_t column, std::size_t depth, Left left, Matrix<const T> right, Matrix<T> out) {
    constexpr std::size_t lanes = Lanes<T>::count;
    Lanes<T> sums[height][width];
    for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = 0; c < width; ++c) sums[r][c] = Lanes<T>::read(out.at(row + r, column + c * lanes));
    for (std::size_t j = 0; j < depth; ++j) {
        Lanes<T> factors[width];
        for (std::size_t c = 0; c < width; ++c) factors[c] = Lanes<T>::read(right.at(j, column + c * lanes));
        for (std::size_t r = 0; r < height; ++r)
            for (std::size_t c = 0; c < width; ++c) sums[r][c].add_multiple(left(j, row + r), factors[c]);
    }
    for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = 0; c < width; ++c) sums[r][c].write(out.at(row + r, column + c * lanes));
}

template <std::size_t height, class T, class Left>
void add_rows(std::size_t row, std::size_t columns, std::size_t depth, Left left, Matrix<const T> right, Matrix<T> out) {
    constexpr std::size_t lanes = Lanes<T>::count;
    std::size_t i = 0;
    for (; i + 2 * lanes <= columns; i += 2 * lanes) add_block<height, 2>(row, i, depth, left, right, out);
    for (; i + lanes <= columns; i += lanes) add_block<height, 1>(row, i, depth, left, right, out);
    for (; i < columns; ++i)
        for (std::size_t r = row; r < row + height; ++r) {
            T sum = *out.at(r, i);
            for (std::size_t j = 0; j < depth; ++j) sum += left(j, r) * *right.at(j, i);
            *out.at(r, i) = sum;
        }
}

// out(r, i) += sum over j < depth of left(j, r) right(j, i).
template <class T, class Left>
void add_product(std::size_t rows, std::size_t columns, std::size_t depth, Left left, Matrix<const T> right,
                 Matrix<T> out) {
    std::size_t r = 0;
    for (; r + product_rows <= rows; r += product_rows) add_rows<product_rows>(r, columns, depth, left, right, out);
    for (; r < rows; ++r) add_rows<1>(r, columns, depth, left, right, out);
}

}  // namespace sphereot
