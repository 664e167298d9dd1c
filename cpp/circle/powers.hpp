// |s|^p for the orders people use, each as its own type so that loops over it vectorize.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

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
        const T lower = HalfPower<TwiceP - 2>{}(s);
        const T size = lower * T(TwiceP) / T(2);
        return s > T(0) ? size : s < T(0) ? -size : T(0);
    }

    // the integral of |s|^p from r to s, by the antiderivative g(s) = sign(s) |s|^{p+1} / (p + 1)
    template <class T>
    T integral(T r, T s) const {
        const auto& power = *this;
        return (s * power(s) - r * power(r)) * (T(2) / T(TwiceP + 2));
    }
};

// Other orders up to 4, in double precision whatever the points have.
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

// Up to this order no |s|^p under- or overflows, even in single precision: displacements are 2^-24 to 2 turns there.
inline constexpr double largest_plain_order = 4.0;

// Larger orders: |s|^p soon leaves the range of doubles, so it is taken of s / unit. A caller who knows the size of the
// result chooses the unit; sums whose size is not known are `LargeTotal`s.
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
    // Saturated: the price of a pair that is not matched may overflow, and infinity minus infinity is no price.
    double power_of(double s, double exponent) const {
        return std::min(std::pow(std::fabs(s) / unit, exponent), 1e250);
    }
};

// The sum of mass |s|^p.
template <class Power>
struct PlainTotal {
    Power power;
    double total = 0.0;

    template <class T>
    void add(double mass, T s) {
        total += mass * static_cast<double>(power(s));
    }
    template <class T>
    void add_difference(T s, T r) {
        total += static_cast<double>(power.difference(s, r));
    }
    void add(const PlainTotal& other) { total += other.total; }

    double slope() const { return total; }
    double cost() const { return total; }
    double root(double p) const { return std::pow(total, 1.0 / p); }
};

// The same for large orders, in units of about the largest |s| so far, to the power p: it neither over- nor underflows,
// and terms that do beside the largest do not matter.
class LargeTotal {
public:
    explicit LargeTotal(LargePower power) : power_(power), slack_(std::exp2(100.0 / power.p)) {}
    LargeTotal(LargePower power, double unit, double total) : LargeTotal(power) { unit_ = unit, total_ = total; }

    void add(double mass, double s) {
        const double size = std::fabs(s);
        if (size == 0.0) return;
        // Terms may grow to 2^100 before the unit does: each change of units rounds all that was added so far.
        if (size > slack_ * unit_) set_unit(size);
        total_ += mass * std::pow(size / unit_, power_.p);
    }
    void add_difference(double s, double r) { add(1.0, s), add(-1.0, r); }
    void add(const LargeTotal& other) {
        if (other.unit_ > unit_) set_unit(other.unit_);
        if (unit_ > 0.0) total_ += other.total_ * std::pow(other.unit_ / unit_, power_.p);
    }
    void divide(double by) { total_ /= by; }

    // With the sign of the sum of differences, and in proportion to the displacement that it is a power of: comparable
    // between cuts, where the sums themselves are not.
    double slope() const {
        return std::copysign(total_ == 0.0 ? 0.0 : unit_ * std::pow(std::fabs(total_), 1.0 / (power_.p - 1.0)), total_);
    }
    double cost() const { return total_ * std::pow(unit_ / power_.unit, power_.p); }
    double root(double p) const { return unit_ * std::pow(total_, 1.0 / p); }

private:
    void set_unit(double unit) {
        total_ *= std::pow(unit_ / unit, power_.p);
        unit_ = unit;
    }

    LargePower power_;
    double slack_, unit_ = 0.0, total_ = 0.0;
};

template <class Power>
inline constexpr bool is_large = std::is_same_v<Power, LargePower>;
template <class Power>
using Total = std::conditional_t<is_large<Power>, LargeTotal, PlainTotal<Power>>;

// Calls `work` with the power type for p; beyond `largest_plain_order` powers are taken in `unit`.
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
