// Vectors and symmetric matrices in three dimensions, with named members that compilers keep in registers.
#pragma once

#include "support/real.hpp"

namespace sphereot {

template <Real T>
struct Vector3 {
    T x, y, z;

    friend Vector3 operator+(Vector3 a, Vector3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
    friend Vector3 operator-(Vector3 a, Vector3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
    friend Vector3 operator*(T s, Vector3 a) { return {s * a.x, s * a.y, s * a.z}; }
    friend T dot(Vector3 a, Vector3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
};

template <Real T>
struct Symmetric3 {
    T xx, xy, xz, yy, yz, zz;

    T trace() const { return xx + yy + zz; }
    T square() const { return xx * xx + yy * yy + zz * zz + T(2) * (xy * xy + xz * xz + yz * yz); }  // of the norm

    friend Symmetric3 operator+(Symmetric3 a, Symmetric3 b) {
        return {a.xx + b.xx, a.xy + b.xy, a.xz + b.xz, a.yy + b.yy, a.yz + b.yz, a.zz + b.zz};
    }
    friend Symmetric3 operator-(Symmetric3 a, Symmetric3 b) {
        return {a.xx - b.xx, a.xy - b.xy, a.xz - b.xz, a.yy - b.yy, a.yz - b.yz, a.zz - b.zz};
    }
    friend Symmetric3 operator*(T s, Symmetric3 a) {
        return {s * a.xx, s * a.xy, s * a.xz, s * a.yy, s * a.yz, s * a.zz};
    }
    friend Vector3<T> operator*(Symmetric3 a, Vector3<T> v) {
        return {a.xx * v.x + a.xy * v.y + a.xz * v.z, a.xy * v.x + a.yy * v.y + a.yz * v.z,
                a.xz * v.x + a.yz * v.y + a.zz * v.z};
    }
};

// u v^T + v u^T
template <Real T>
Symmetric3<T> symmetric_product(Vector3<T> u, Vector3<T> v) {
    return {T(2) * u.x * v.x, u.x * v.y + u.y * v.x, u.x * v.z + u.z * v.x,
            T(2) * u.y * v.y, u.y * v.z + u.z * v.y, T(2) * u.z * v.z};
}

}  // namespace sphereot
