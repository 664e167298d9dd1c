// |s|^p with one type for each common order, so that loops over it vectorize.
#pragma once

#include <cmath>
#include <concepts>

#include "support/real.hpp"

namespace sphereot {

// A power |s|^p with p >= 1: its values, differences |s|^p - |r|^p, derivative, and integral from r to s.
template <class Power>
concept CostPower = requires(const Power power, double s, double r) {
    { power(s) } -> std::convertible_to<double>;
    { power.difference(s, r) } -> std::convertible_to<double>;
    { power.derivative(s) } -> std::convertible_to<double>;
    { power.integral(r, s) } -> std::convertible_to<double>;
};

// p = TwiceP / 2: integer and half-integer orders need only products and one square root.
template <int TwiceP>
struct HalfPower {
    template <Real T>
    T operator()(T s) const {
        if constexpr (TwiceP == 0) return T(1);
        else if constexpr (TwiceP == 1) return std::sqrt(std::fabs(s));
        else return std::fabs(s) * HalfPower<TwiceP - 2>{}(s);
    }

    // |s|^p - |r|^p
    template <Real T>
    T difference(T s, T r) const {
        if constexpr (TwiceP == 4) return (s - r) * (s + r);  // no cancellation of squares
        return (*this)(s) - (*this)(r);
    }

    // the derivative of |s|^p
    template <Real T>
    T derivative(T s) const {
        if constexpr (TwiceP == 4) return T(2) * s;
        const T lower = HalfPower<TwiceP - 2>{}(s);
        const T size = lower * T(TwiceP) / T(2);
        return s > T(0) ? size : s < T(0) ? -size : T(0);
    }

    // the integral of |s|^p from r to s, by the antiderivative g(s) = sign(s) |s|^{p+1} / (p + 1)
    template <Real T>
    T integral(T r, T s) const {
        const auto& power = *this;
        return (s * power(s) - r * power(r)) * (T(2) / T(TwiceP + 2));
    }
};

// Other orders, in double precision for points of any precision.
struct AnyPower {
    double p;

    double operator()(double s) const { return std::pow(std::fabs(s), p); }
    double difference(double s, double r) const { return (*this)(s) - (*this)(r); }
    double derivative(double s) const {
        const double size = p * std::pow(std::fabs(s), p - 1.0);
        return s > 0.0 ? size : s < 0.0 ? -size : 0.0;
    }
    double integral(double r, double s) const {
        const auto& power = *this;
        return (s * power(s) - r * power(r)) / (p + 1.0);
    }
};

// Returns work(power) with the power type for p >= 1.
template <class Work>
decltype(auto) with_power(double p, Work work) {
    if (p == 2.0) return work(HalfPower<4>{});
    if (p == 1.0) return work(HalfPower<2>{});
    if (p == 1.5) return work(HalfPower<3>{});
    if (p == 3.0) return work(HalfPower<6>{});
    if (p == 4.0) return work(HalfPower<8>{});
    return work(AnyPower{p});
}

}  // namespace sphereot
