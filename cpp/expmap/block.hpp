// One block of the exponential-map flow on S^2 at one point, from the gradient g and the Hessian H of its potential,
// and its derivatives. The formulas, with the same letters, are in sphereot/flows/_expmap.py.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "expmap/vector3.hpp"
#include "support/compiler.hpp"
#include "support/exp.hpp"
#include "support/real.hpp"

namespace sphereot {

// The Stumpff functions c_k(q) = sum over j of (-q)^j / (2j + k)!, k = 0 to 5, by their series.
//
// Valid range: q in [0, 1]. Maximum error: that of rounding a few sums.
template <Real T>
struct Stumpff {
    T c0, c1, c2, c3, c4, c5;

    SPHEREOT_INLINE explicit Stumpff(T q) : c4(series<4>(q)), c5(series<5>(q)) {
        c2 = T(1.0 / 2.0) - q * c4;
        c3 = T(1.0 / 6.0) - q * c5;
        c0 = T(1) - q * c2;
        c1 = T(1) - q * c3;
    }

private:
    static constexpr int last = std::is_same_v<T, float> ? 12 : 18;  // the next term is below rounding

    template <int k>
    static T series(T q) {
        constexpr T first = static_cast<T>(1.0 / factorial(k));
        if constexpr (k >= last) return first;
        else return first - q * series<k + 2>(q);
    }
};

// exp_x(v) for the Riemannian gradient v = g - <x, g> x.
template <Real T>
struct ExpMapStep {
    T s;
    Vector3<T> v;
    T q;
    Stumpff<T> c;
    T inverse_length;  // so that rounding does not add up over blocks
    Vector3<T> y;

    SPHEREOT_INLINE ExpMapStep(Vector3<T> x, Vector3<T> g) : s(dot(x, g)), v(g - s * x), q(dot(v, v)), c(q) {
        const Vector3<T> end = c.c0 * x + c.c1 * v;
        inverse_length = T(1) / std::sqrt(dot(end, end));
        y = inverse_length * end;
    }
};

// The determinant of the differential of a step, by invariants of B = P H P.
template <Real T>
struct ExpMapDeterminant {
    Vector3<T> hx;
    T xhx;
    Vector3<T> pull;
    Symmetric3<T> b;
    Vector3<T> bv;
    T trace, invariants, vav, value;

    SPHEREOT_INLINE ExpMapDeterminant(const ExpMapStep<T>& step, Vector3<T> x, Symmetric3<T> h)
        : hx(h * x),
          xhx(dot(x, hx)),
          pull(hx - T(0.5) * xhx * x),
          b(h - symmetric_product(x, pull)),
          bv(b * step.v),
          trace(b.trace()) {
        const T det = T(0.5) * (trace * trace - b.square());
        invariants = trace + det - step.s * (T(2) - step.s + trace);
        vav = dot(step.v, bv) - step.s * step.q;
        const T determinant = step.c.c0 + step.c.c1 * invariants - (step.c.c2 - step.c.c3) * vav;
        // It is positive; where a block contracts to almost nothing, rounding may give a number below zero.
        constexpr T least = std::numeric_limits<T>::epsilon();
        value = determinant < least ? least : determinant;
    }
};

// Cotangents of x, g and H. That of H is symmetric: the loss changes by the sum of its entries times those of dH.
template <Real T>
struct BlockCotangents {
    Vector3<T> x, g;
    Symmetric3<T> h;
};

// The backward pass of a block, from the cotangents of its image y and of the logarithm of its determinant.
template <Real T, bool with_determinant>
SPHEREOT_INLINE BlockCotangents<T> block_cotangents(Vector3<T> x, Vector3<T> g, Symmetric3<T> h, Vector3<T> d_y,
                                                    T d_log_det) {
    const ExpMapStep<T> step(x, g);
    const Stumpff<T>& c = step.c;
    const T k = c.c2 - c.c3;
    const Vector3<T> d_end = step.inverse_length * (d_y - dot(d_y, step.y) * step.y);
    Vector3<T> d_x = c.c0 * d_end, d_v = c.c1 * d_end;
    T d_c0 = dot(d_end, x), d_c1 = dot(d_end, step.v), d_s = T(0), d_q = T(0);
    Symmetric3<T> d_h{};
    if constexpr (with_determinant) {
        const ExpMapDeterminant<T> det(step, x, h);
        const T d_det = d_log_det / det.value, d_invariants = d_det * c.c1, d_vav = -d_det * k;
        d_c0 += d_det;
        d_c1 += d_det * det.invariants;
        // k' = -(c_3 - 3 (c_4 - c_5)) / 2
        d_q = T(0.5) * d_det * det.vav * (c.c3 - T(3) * (c.c4 - c.c5)) - d_vav * step.s;
        d_s = d_invariants * (T(2) * (step.s - T(1)) - det.trace) - d_vav * step.q;
        d_v = d_v + T(2) * d_vav * det.bv;
        const T along = d_invariants * (T(1) + det.trace - step.s);
        d_h = T(0.5) * d_vav * symmetric_product(step.v, step.v) - d_invariants * det.b;
        d_h.xx += along;
        d_h.yy += along;
        d_h.zz += along;
        const Vector3<T> d_pull = T(-2) * (d_h * x);
        const T d_xhx = T(-0.5) * dot(d_pull, x);
        const Vector3<T> d_hx = d_pull + d_xhx * x;
        d_x = d_x - T(2) * (d_h * det.pull) - T(0.5) * det.xhx * d_pull + d_xhx * det.hx + h * d_hx;
        d_h = d_h + T(0.5) * symmetric_product(d_hx, x);
    }
    d_q -= T(0.5) * (d_c0 * c.c1 + d_c1 * k);
    d_v = d_v + T(2) * d_q * step.v;
    d_s -= dot(d_v, x);
    return {d_x - step.s * d_v + d_s * g, d_v + d_s * x, d_h};
}

}  // namespace sphereot
