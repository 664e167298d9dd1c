// What the bindings share: arrays as arguments, errors, threads and signals.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "support/parallel.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sphereot {

// Each adds the functions of its file to the module.
void bind_slices(nb::module_& m);
void bind_sketches(nb::module_& m);

template <class T, int dims>
using Input = nb::ndarray<const T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;

template <class T, int dims>
using InOut = nb::ndarray<T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

// Called regularly on the main thread during long calls: runs Python's signal handlers, so that Ctrl-C raises.
inline void check_signals() {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Only the main thread checks for signals. Other threads do not get any, and must not acquire the interpreter's lock
// during a call: while the interpreter shuts down this would block or end them.
inline Execution execution_on(std::size_t threads) {
    const nb::object main_thread = nb::module_::import_("threading").attr("main_thread")();
    const bool on_main = nb::cast<unsigned long>(main_thread.attr("ident")) == PyThread_get_thread_ident();
    return {threads, on_main ? check_signals : nullptr};
}

template <class Array>
bool has_shape(const Array& array, const std::vector<std::size_t>& shape) {
    bool same = array.ndim() == shape.size();
    for (std::size_t i = 0; same && i < shape.size(); ++i) same = array.shape(i) == shape[i];
    return same;
}

}  // namespace sphereot
