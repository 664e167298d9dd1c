// |s|^p for the orders people use, each as its own type so that loops over it vectorize.
#pragma once

#include <cmath>

namespace sphereot {

// p = TwiceP / 2: whole and half orders need only products and one square root.
template <int TwiceP>
struct HalfPower {
    template <class T>
    T operator()(T s) const {
        if constexpr (TwiceP == 0) return T(1);
        else if constexpr (TwiceP == 1) return std::sqrt(std::fabs(s));
        else return std::fabs(s) * HalfPower<TwiceP - 2>{}(s);
    }

    // |s|^p - |r|^p
    template <class T>
    T difference(T s, T r) const {
        if constexpr (TwiceP == 4) return (s - r) * (s + r);  // no cancellation of squares
        return (*this)(s) - (*this)(r);
    }

    // the derivative of |s|^p
    template <class T>
    T derivative(T s) const {
        if constexpr (TwiceP == 4) return T(2) * s;
        const T size = HalfPower<TwiceP - 2>{}(s) * T(TwiceP) / T(2);
        return s > T(0) ? size : s < T(0) ? -size : T(0);
    }

    // the integral of |s|^p from r to s, by the antiderivative g(s) = sign(s) |s|^{p+1} / (p + 1)
    template <class T>
    T integral(T r, T s) const {
        return (s * (*this)(s) - r * (*this)(r)) * (T(2) / T(TwiceP + 2));
    }
};

// In double precision whatever the points have: a float32 overflows at 1.5^220.
struct AnyPower {
    double p;

    double operator()(double s) const { return std::pow(std::fabs(s), p); }
    double difference(double s, double r) const { return (*this)(s) - (*this)(r); }
    double derivative(double s) const {
        const double size = p * std::pow(std::fabs(s), p - 1.0);
        return s > 0.0 ? size : s < 0.0 ? -size : 0.0;
    }
    double integral(double r, double s) const { return (s * (*this)(s) - r * (*this)(r)) / (p + 1.0); }
};

// Calls `work` with the power type for p.
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
