// The floating-point types of the kernel.
#pragma once

#include <concepts>

namespace sphereot {

template <class T>
concept Real = std::same_as<T, float> || std::same_as<T, double>;

}  // namespace sphereot
