// |s|^p with one type for each common order, so that loops over it vectorize; and sums of such powers.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>

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

// A sum of powers: a cost W_p^p, its p-th root, or a slope.
template <class Total>
concept CostTotal = requires(const Total total, double p) {
    { total.cost() } -> std::same_as<double>;
    { total.root(p) } -> std::same_as<double>;
    { total.slope() } -> std::same_as<double>;
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

// Other orders up to `largest_plain_order`, in double precision for points of any precision.
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

// Up to this order |s|^p neither underflows nor overflows, even in single precision, where displacements are 2^-24 to 2
// turns.
inline constexpr double largest_plain_order = 4.0;

// Larger orders, as |s / unit|^p, since |s|^p leaves the range of doubles. A caller that knows the size of the result
// chooses the unit; sums of unknown size are `LargeTotal`s.
struct LargePower {
    double p, unit = 1.0;

    double operator()(double s) const { return power_of(s, p); }
    double difference(double s, double r) const { return (*this)(s) - (*this)(r); }
    double derivative(double s) const {
        const double size = p / unit * power_of(s, p - 1.0);
        return s > 0.0 ? size : s < 0.0 ? -size : 0.0;
    }
    double integral(double r, double s) const {
        const auto& power = *this;
        return (s * power(s) - r * power(r)) / (p + 1.0);
    }

private:
    static constexpr double saturation = 1e250;

    // Saturated, since the cost of a pair that is not matched may overflow, and differences of infinities are not
    // numbers.
    double power_of(double s, double exponent) const {
        return std::min(std::pow(std::fabs(s) / unit, exponent), saturation);
    }
};

// A sum of mass |s|^p.
template <CostPower Power>
struct PlainTotal {
    Power power;
    double total = 0.0;

    template <Real T>
    void add(double mass, T s) {
        total += mass * static_cast<double>(power(s));
    }
    template <Real T>
    void add_difference(T s, T r) {
        total += static_cast<double>(power.difference(s, r));
    }
    void add(const PlainTotal& other) { total += other.total; }

    double slope() const { return total; }
    double cost() const { return total; }
    double root(double p) const { return std::pow(total, 1.0 / p); }
};

// The same for large orders, in units of unit^p with a unit near the largest |s| so far: the sum neither overflows nor
// underflows, and terms that underflow beside the largest do not matter.
class LargeTotal {
public:
    explicit LargeTotal(LargePower power) : power_(power), slack_(std::exp2(growth_bits / power.p)) {}
    LargeTotal(LargePower power, double unit, double total) : LargeTotal(power) {
        unit_ = unit;
        total_ = total;
    }

    void add(double mass, double s) {
        const double size = std::fabs(s);
        if (size == 0.0) return;
        // The unit changes only when a term exceeds 2^growth_bits, because each change rounds the whole sum.
        if (size > slack_ * unit_) set_unit(size);
        total_ += mass * std::pow(size / unit_, power_.p);
    }
    void add_difference(double s, double r) {
        add(1.0, s);
        add(-1.0, r);
    }
    void add(const LargeTotal& other) {
        if (other.unit_ > unit_) set_unit(other.unit_);
        if (unit_ > 0.0) total_ += other.total_ * std::pow(other.unit_ / unit_, power_.p);
    }
    void divide(double by) { total_ /= by; }

    // A number with the sign of the sum, proportional to the displacement of which the sum is a power: numbers of
    // different cuts can be compared, where the sums themselves overflow.
    double slope() const {
        return std::copysign(total_ == 0.0 ? 0.0 : unit_ * std::pow(std::fabs(total_), 1.0 / (power_.p - 1.0)), total_);
    }
    double cost() const { return total_ * std::pow(unit_ / power_.unit, power_.p); }
    double root(double p) const { return unit_ * std::pow(total_, 1.0 / p); }

private:
    static constexpr double growth_bits = 100.0;

    void set_unit(double unit) {
        total_ *= std::pow(unit_ / unit, power_.p);
        unit_ = unit;
    }

    LargePower power_;
    double slack_, unit_ = 0.0, total_ = 0.0;
};

template <CostPower Power>
inline constexpr bool is_large = std::is_same_v<Power, LargePower>;
template <CostPower Power>
using Total = std::conditional_t<is_large<Power>, LargeTotal, PlainTotal<Power>>;

// Returns work(power) with the power type for p >= 1. `unit` is that of `LargePower`.
template <class Work>
decltype(auto) with_power(double p, double unit, Work work) {
    if (p > largest_plain_order) return work(LargePower{p, unit});
    if (p == 2.0) return work(HalfPower<4>{});
    if (p == 1.0) return work(HalfPower<2>{});
    if (p == 1.5) return work(HalfPower<3>{});
    if (p == 3.0) return work(HalfPower<6>{});
    if (p == 4.0) return work(HalfPower<8>{});
    return work(AnyPower{p});
}

}  // namespace sphereot
