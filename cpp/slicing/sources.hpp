// Sources of turns: the four forms in which the points of a measure are given, and how each is projected to the
// circles.
//
// A source is a view of arrays that it does not own. Each thread makes a reader of it, which holds scratch memory.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "circle/grid.hpp"
#include "slicing/frames.hpp"
#include "slicing/gemm.hpp"
#include "slicing/planar_gradient.hpp"
#include "support/real.hpp"

namespace sphereot {

// Atoms that are projected together: their arrays fit in the L1 cache.
inline constexpr std::size_t block_size = 512;

// Reads the slices of a source, a run of consecutive slices at a time.
//
//   load(first, count)               prepares the slices [first, first + count).
//   write_turns(l, begin, count, t)  writes the turns, in [0, 1], of the atoms [begin, begin + count) on the l-th
//                                    loaded slice. Requires count <= block_size.
//   pull_back(l, dturn, share, out)  backward pass of one slice, from the gradient in turns; `share` is a factor.
//   end_gradient(count, out, a)      backward pass of the whole run, for readers that project runs by one product;
//                                    called after pull_back for all `count` loaded slices. `out` is the same array.
template <class Reader, class T>
concept SliceReader = requires(Reader reader, std::size_t i, const T* in, T* out, double share, Accumulate accumulate) {
    reader.load(i, i);
    reader.write_turns(i, i, i, out);
    reader.pull_back(i, in, share, out);
    reader.end_gradient(i, out, accumulate);
};

// Points in one of the forms that a measure can have.
//
//   reader(max_slices)      a reader for runs of at most `max_slices` slices.
//   gradient_shape(slices)  the shape of the array for the gradient in the points.
//   sums_slices             whether a gradient is the sum over slices; if not, each slice is a problem of its own.
//   projects_runs           whether runs of several slices are faster than single slices.
template <class Source>
concept SliceSource = Real<typename Source::Value> && requires(const Source source, std::size_t i) {
    { source.reader(i) } -> SliceReader<typename Source::Value>;
    { source.gradient_shape(i) } -> std::same_as<std::vector<std::size_t>>;
    { Source::sums_slices } -> std::convertible_to<bool>;
    { Source::projects_runs } -> std::convertible_to<bool>;
};

// ---- sources whose slices are read one by one ----

// The reader of a source that needs no preparation: slices are those of the source, counted from the first loaded.
template <class Source>
class DirectReader {
public:
    using T = typename Source::Value;

    explicit DirectReader(const Source& source) : source_(source) {}

    void load(std::size_t first, std::size_t) { first_ = first; }
    void write_turns(std::size_t l, std::size_t begin, std::size_t count, T* turns) const {
        source_.write_turns(first_ + l, begin, count, turns);
    }
    void pull_back(std::size_t l, const T* dturn, double share, T* out) const {
        source_.pull_back(first_ + l, dturn, share, out);
    }
    void end_gradient(std::size_t, T*, Accumulate) const {}

private:
    Source source_;
    std::size_t first_ = 0;
};

// Turns, which may be any coordinates on the line.
template <Real T>
struct TurnSource {
    using Value = T;
    static constexpr bool sums_slices = false, projects_runs = false;

    std::size_t atoms;
    const T* turns;  // (slices, atoms)

    void write_turns(std::size_t slice, std::size_t begin, std::size_t count, T* out) const {
        const T* given = turns + slice * atoms + begin;
        for (std::size_t i = 0; i < count; ++i) out[i] = wrapped_turn(given[i]);
    }

    void pull_back(std::size_t slice, const T* dturn, double share, T* out) const {
        for (std::size_t i = 0; i < atoms; ++i) out[slice * atoms + i] = static_cast<T>(share) * dturn[i];
    }

    DirectReader<TurnSource> reader(std::size_t) const { return DirectReader<TurnSource>(*this); }
    std::vector<std::size_t> gradient_shape(std::size_t slices) const { return {slices, atoms}; }
};

// Points that were projected to the plane of each slice already.
template <Real T>
struct PlanarSource {
    using Value = T;
    static constexpr bool sums_slices = true, projects_runs = false;

    std::size_t atoms;
    const T* points;  // (slices, 2, atoms)

    void write_turns(std::size_t slice, std::size_t begin, std::size_t count, T* out) const {
        const T* given = points + slice * 2 * atoms + begin;
        for (std::size_t i = 0; i < count; ++i) out[i] = planar_turn(given[i], given[atoms + i]);
    }

    // `out` may be the points themselves.
    void pull_back(std::size_t slice, const T* dturn, double share, T* out) const {
        T d1[block_size], d2[block_size];
        for (std::size_t begin = 0; begin < atoms; begin += block_size) {
            const std::size_t count = std::min(block_size, atoms - begin), offset = slice * 2 * atoms + begin;
            const T* given = points + offset;
            planar_gradient(given, given + atoms, dturn + begin, count, share, d1, d2);
            std::copy_n(d1, count, out + offset);
            std::copy_n(d2, count, out + offset + atoms);
        }
    }

    DirectReader<PlanarSource> reader(std::size_t) const { return DirectReader<PlanarSource>(*this); }
    std::vector<std::size_t> gradient_shape(std::size_t slices) const { return {slices, 2, atoms}; }
};

// Points with each coordinate contiguous, projected slice by slice: for few dimensions.
template <Real T>
struct ColumnSource {
    using Value = T;
    static constexpr bool sums_slices = true, projects_runs = false;

    std::size_t atoms, dim;
    const T* points;  // (dim, atoms)
    const T* frames;  // (slices, dim, 2)

    void write_turns(std::size_t slice, std::size_t begin, std::size_t count, T* out) const {
        T first[block_size], second[block_size];
        project(slice, begin, count, first, second);
        for (std::size_t i = 0; i < count; ++i) out[i] = planar_turn(first[i], second[i]);
    }

    // Adds to `out`, (dim, atoms).
    void pull_back(std::size_t slice, const T* dturn, double share, T* out) const {
        T first[block_size], second[block_size], d1[block_size], d2[block_size];
        const T* frame = frames + slice * dim * 2;
        for (std::size_t begin = 0; begin < atoms; begin += block_size) {
            const std::size_t count = std::min(block_size, atoms - begin);
            project(slice, begin, count, first, second);
            planar_gradient(first, second, dturn + begin, count, share, d1, d2);
            for (std::size_t k = 0; k < dim; ++k) {
                T* coordinate = out + k * atoms + begin;
                const T u = frame[2 * k], v = frame[2 * k + 1];
                for (std::size_t i = 0; i < count; ++i) coordinate[i] += u * d1[i] + v * d2[i];
            }
        }
    }

    DirectReader<ColumnSource> reader(std::size_t) const { return DirectReader<ColumnSource>(*this); }
    std::vector<std::size_t> gradient_shape(std::size_t) const { return {atoms, dim}; }

private:
    // U^T x, one coordinate after the other, so that each loop runs along the points.
    void project(std::size_t slice, std::size_t begin, std::size_t count, T* first, T* second) const {
        const T* frame = frames + slice * dim * 2;
        std::fill_n(first, count, T(0));
        std::fill_n(second, count, T(0));
        for (std::size_t k = 0; k < dim; ++k) {
            const T* coordinate = points + k * atoms + begin;
            const T u = frame[2 * k], v = frame[2 * k + 1];
            for (std::size_t i = 0; i < count; ++i) first[i] += u * coordinate[i];
            for (std::size_t i = 0; i < count; ++i) second[i] += v * coordinate[i];
        }
    }
};

// ---- a source whose slices are projected several at a time ----

template <Real T>
class Tile;

// Points one after the other, as users have them, projected for several slices by one matrix product: for many
// dimensions.
template <Real T>
struct RowSource {
    using Value = T;
    static constexpr bool sums_slices = true, projects_runs = true;

    std::size_t atoms, dim;
    const T* points;  // (atoms, dim)
    const T* frames;  // (slices, dim, 2), or null where they are drawn
    RandomPlanes drawn{};

    Tile<T> reader(std::size_t max_slices) const { return Tile<T>(*this, max_slices); }
    std::vector<std::size_t> gradient_shape(std::size_t) const { return {atoms, dim}; }
};

// The reader of a `RowSource`. It copies the points to panels once. Gradients replace the planar points.
template <Real T>
class Tile {
public:
    Tile(const RowSource<T>& source, std::size_t max_slices)
        : source_(source),
          coordinates_(source.dim, source.atoms),
          vectors_(2 * max_slices, source.dim),
          frames_(std::make_unique_for_overwrite<T[]>(max_slices * 2 * source.dim)),
          planar_(std::make_unique_for_overwrite<T[]>(max_slices * 2 * source.atoms)) {
        coordinates_.fill_transposed(source.points);
    }

    // Projects the points: U^T x for each slice. The result does not depend on the other slices of the run.
    void load(std::size_t first, std::size_t count) {
        const std::size_t dim = source_.dim;
        for (std::size_t l = 0; l < count; ++l) set_frame(first + l, frames_.get() + l * 2 * dim);
        const auto left = [dim, rows = frames_.get()](std::size_t k, std::size_t r) { return rows[r * dim + k]; };
        gemm<T>(2 * count, dim, left, coordinates_, {planar_.get(), source_.atoms}, Accumulate::no, left_factor_);
    }

    void write_turns(std::size_t l, std::size_t begin, std::size_t count, T* turns) const {
        planar().write_turns(l, begin, count, turns);
    }

    void pull_back(std::size_t l, const T* dturn, double share, T*) {
        planar().pull_back(l, dturn, share, planar_.get());
    }

    // U times the planar gradients, summed over the run, to `out`, (atoms, dim).
    void end_gradient(std::size_t count, T* out, Accumulate accumulate) {
        const std::size_t n = source_.atoms;
        vectors_.fill(frames_.get(), 2 * count);
        const auto left = [n, gradients = planar_.get()](std::size_t r, std::size_t i) { return gradients[r * n + i]; };
        gemm<T>(n, 2 * count, left, vectors_, {out, source_.dim}, accumulate, left_factor_);
    }

private:
    PlanarSource<T> planar() const { return {source_.atoms, planar_.get()}; }

    void set_frame(std::size_t slice, T* rows) const {
        if constexpr (std::same_as<T, float>)  // planes are drawn in single precision only
            if (!source_.frames) return source_.drawn.draw(slice, source_.dim, rows);
        frame_to_rows(source_.frames + slice * source_.dim * 2, source_.dim, rows);
    }

    RowSource<T> source_;
    Panels<T> coordinates_;        // (dim, atoms)
    Panels<T> vectors_;            // (2 slices, dim): the vectors of the frames, one after the other
    std::unique_ptr<T[]> frames_;  // the same
    std::unique_ptr<T[]> planar_;  // (slices, 2, atoms)
    std::vector<T> left_factor_;   // scratch memory of products
};

template <Real T>
using AnySource = std::variant<TurnSource<T>, PlanarSource<T>, ColumnSource<T>, RowSource<T>>;

template <Real T>
using AnyReader =
    std::variant<DirectReader<TurnSource<T>>, DirectReader<PlanarSource<T>>, DirectReader<ColumnSource<T>>, Tile<T>>;

static_assert(SliceSource<TurnSource<float>> && SliceSource<PlanarSource<float>> && SliceSource<ColumnSource<float>> &&
              SliceSource<RowSource<float>>);

}  // namespace sphereot
