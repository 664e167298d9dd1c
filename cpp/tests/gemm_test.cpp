#include "slicing/gemm.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "slicing/transpose.hpp"
#include "tests/check.hpp"

using namespace sphereot;

namespace {

template <Real T>
std::vector<T> random_matrix(std::mt19937& random, std::size_t size) {
    std::normal_distribution<double> normal;
    std::vector<T> values(size);
    for (auto& value : values) value = static_cast<T>(normal(random));
    return values;
}

// Compares with a product in double precision; the bound is that of a sum of `depth` rounded terms.
template <Real T>
void check_gemm(std::size_t rows, std::size_t depth, std::size_t columns, Accumulate accumulate, bool transposed) {
    std::mt19937 random(static_cast<unsigned>(rows + 100 * depth + 10000 * columns));
    const auto left = random_matrix<T>(random, depth * rows), right = random_matrix<T>(random, depth * columns);
    const auto before = random_matrix<T>(random, rows * columns);
    auto out = before;
    Panels<T> panels(depth, columns);
    if (transposed) {
        std::vector<T> flipped(right.size());
        transpose(right.data(), columns, depth, columns, flipped.data(), depth);
        panels.fill_transposed(flipped.data());
    } else {
        panels.fill(right.data(), depth);
    }
    std::vector<T> copy;
    const auto left_at = [&](std::size_t j, std::size_t r) { return left[j * rows + r]; };
    gemm<T>(rows, depth, left_at, panels, {out.data(), columns}, accumulate, copy);
    auto from_packed = before;
    gemm_packed<T>(rows, depth, packed_left<T>(rows, depth, left_at), panels, {from_packed.data(), columns},
                   accumulate);
    CHECK(from_packed == out);
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < columns; ++i) {
            double sum = accumulate == Accumulate::yes ? before[r * columns + i] : 0.0, size = std::fabs(sum);
            for (std::size_t j = 0; j < depth; ++j) {
                const double term =
                    static_cast<double>(left[j * rows + r]) * static_cast<double>(right[j * columns + i]);
                sum += term;
                size += std::fabs(term);
            }
            const double bound = static_cast<double>(depth + 2) * std::numeric_limits<T>::epsilon() * size;
            CHECK(std::fabs(static_cast<double>(out[r * columns + i]) - sum) <= bound);
        }
}

template <Real T>
void check_all_gemm() {
    for (const std::size_t rows : {1u, 2u, 3u, 7u, 8u, 9u, 21u})
        for (const std::size_t depth : {1u, 2u, 127u, 128u, 129u, 300u})
            for (const std::size_t columns : {1u, 7u, 8u, 16u, 31u, 32u, 33u, 100u})
                for (const auto accumulate : {Accumulate::no, Accumulate::yes})
                    check_gemm<T>(rows, depth, columns, accumulate, (rows + columns) % 2 == 0);
}

template <Real T>
void check_transpose(std::size_t rows, std::size_t columns, std::size_t in_slack, std::size_t out_slack) {
    const std::size_t in_stride = columns + in_slack, out_stride = rows + out_slack;
    std::vector<T> in(rows * in_stride), out(columns * out_stride, T(-1));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(i);
    transpose(in.data(), in_stride, rows, columns, out.data(), out_stride);
    for (std::size_t c = 0; c < columns; ++c) {
        for (std::size_t r = 0; r < rows; ++r) CHECK(out[c * out_stride + r] == in[r * in_stride + c]);
        for (std::size_t r = rows; r < out_stride; ++r) CHECK(out[c * out_stride + r] == T(-1));
    }
}

}  // namespace

TEST_CASE("gemm: float products equal sums in double precision") { check_all_gemm<float>(); }

TEST_CASE("gemm: double products") { check_all_gemm<double>(); }

TEST_CASE("gemm: a row of the product does not depend on the other rows") {
    std::mt19937 random(5);
    const std::size_t depth = 150, columns = 40;
    const auto left = random_matrix<float>(random, 8 * depth), right = random_matrix<float>(random, depth * columns);
    Panels<float> panels(depth, columns);
    panels.fill(right.data(), depth);
    std::vector<float> all(8 * columns), single(columns), copy;
    const auto row_from = [&](std::size_t first) {
        return [&, first](std::size_t j, std::size_t r) { return left[(first + r) * depth + j]; };
    };
    gemm<float>(8, depth, row_from(0), panels, {all.data(), columns}, Accumulate::no, copy);
    for (std::size_t r = 0; r < 8; ++r) {
        gemm<float>(1, depth, row_from(r), panels, {single.data(), columns}, Accumulate::no, copy);
        for (std::size_t i = 0; i < columns; ++i) CHECK(single[i] == all[r * columns + i]);
    }
}

TEST_CASE("transpose: all sizes around the squares, with strides") {
    for (const std::size_t rows : {1u, 3u, 4u, 5u, 63u, 64u, 65u, 130u})
        for (const std::size_t columns : {1u, 2u, 3u, 4u, 5u, 8u, 33u}) {
            check_transpose<float>(rows, columns, 0, 0);
            check_transpose<double>(rows, columns, 3, 5);
        }
}
