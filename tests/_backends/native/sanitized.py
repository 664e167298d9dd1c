"""Runs every entry of the kernel in a build with sanitizers (`make sanitize`); a finding ends it with an error."""

import importlib.util
import sys
from pathlib import Path

import numpy as np

ORDERS = (1.0, 1.5, 2.0, 2.7, 3.0, 4.0, 4.5, 50.0, 1000.0)


def load(folder: str):
    (path,) = Path(folder).glob("_kernel_baseline*.so")
    spec = importlib.util.spec_from_file_location("_kernel_baseline", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def atoms(rng, slices, n, kind):
    if kind == "spread":
        return rng.random((slices, n))
    if kind == "tied":
        return rng.integers(0, 4, (slices, n)) / 4
    if kind == "close":
        return 0.5 + 1e-12 * rng.random((slices, n))
    return rng.choice([0.0, np.nextafter(1, 0), -0.0, 5e-324, 1e15, -7.25], (slices, n))


def weights(rng, slices, n, kind):
    if kind == "equal":
        return None
    w = rng.exponential(size=(slices if kind == "each" else 1, n)) * (rng.random(n) > 0.3)
    w[:, rng.integers(n)] += 1e-6 if kind == "each" else 1.0
    if kind == "uneven":
        w[:, 0] = 1e12
    if kind == "extreme":
        w = 10.0 ** rng.uniform(-320, 308, (1, n))
    return w


def labels(rng, count, first, n):
    """Random labelings, eight in a byte, each with `first` points in the first sample."""
    chosen = np.zeros((-(-count // 8) * 8, n), np.uint8)
    for k in range(count):
        chosen[k, rng.permutation(n)[:first]] = 1
    return np.ascontiguousarray(np.packbits(chosen.reshape(-1, 8, n), axis=1, bitorder="little")[:, 0])


def flows(kernel, rng) -> int:
    """Both passes of the exponential-map flow, with and without determinants, in runs that are not full."""
    calls = 0
    for dtype in (np.float32, np.float64):
        for n in (1, 7, 255, 256, 257, 600):
            for rows, columns in ((3, 3), (9, 12)):
                n_blocks, n_components, groups = (
                    int(rng.integers(1, 4)),
                    int(rng.integers(1, 9)),
                    int(rng.integers(1, 4)),
                )
                shape = (n_blocks, n_components)
                mu = rng.normal(size=(*shape, 3))
                mu /= np.linalg.norm(mu, axis=-1, keepdims=True)
                alpha = rng.dirichlet(np.ones(n_components + 1), n_blocks)[:, :-1, None]
                beta = 10.0 ** rng.uniform(-3, 6, (*shape, 1))
                hessian = (alpha * beta)[..., None] * mu[..., :, None] * mu[..., None, :]
                slopes = np.concatenate([beta * mu, -beta], -1).astype(dtype)
                loads = np.concatenate([alpha * mu, hessian.reshape(*shape, 9)], -1)[..., :columns].astype(
                    dtype, order="C"
                )
                x = rng.normal(size=(3, n))
                states = np.empty((n_blocks + 1, 3, n), dtype)
                states[0] = x / np.linalg.norm(x, axis=0)
                moments = np.empty((n_blocks, rows, n), dtype)
                determinants = np.empty((n_blocks, n), dtype) if rows == 9 else None
                kernel.flow_forward(slopes, loads, states, moments, determinants, 2)
                assert np.allclose(np.sum(states**2, axis=1), 1, atol=1e-5)
                d_log = rng.normal(size=n).astype(dtype) if rows == 9 else None
                d_x = np.empty((3, n), dtype)
                gradients = [np.zeros((groups, *of.shape), dtype) for of in (slopes, loads)]
                record = (slopes, loads, states, moments, determinants)
                kernel.flow_backward(*record, rng.normal(size=(3, n)).astype(dtype), d_log, d_x, *gradients, 2)
                assert np.all(np.isfinite(d_x))
                calls += 2
    return calls


def pairs(kernel, rng) -> int:
    """All pairs of points, with and without weights and gradients; equal, opposite and zero points among them."""
    calls = 0
    for dtype, terms in ((np.float32, (5, 4)), (np.float64, (9, 8))):
        coefficients = [rng.normal(size=count) for count in terms]
        for n in (1, 2, 63, 64, 65, 200):
            for dim in (2, 3, 8, 9, 40, 130):
                x = (rng.normal(size=(n, dim)) * (rng.random((n, 1)) > 0.1)).astype(dtype)
                x[n // 2], x[-1] = x[0], -x[0]
                for w in (None, rng.random(n)):
                    for gradient in (None, np.empty_like(x)):
                        for potentials in (None, np.empty(n)):
                            groups, threads = int(rng.integers(1, 5)), int(rng.integers(1, 4))
                            kernel.sum_pairs(x, w, *coefficients, 3.0, groups, threads, gradient, potentials)
                            calls += 1
    return calls


def main(folder: str) -> None:
    kernel = load(folder)
    rng = np.random.default_rng(0)
    calls = flows(kernel, rng) + pairs(kernel, rng)
    for dtype in (np.float32, np.float64):
        for trial in range(1500):
            slices = int(rng.integers(1, 5))
            sizes = [int(k) for k in np.exp(rng.uniform(0, np.log(400), 2))]
            if trial % 3 == 0:
                sizes[1] = sizes[0]
            p, threads = float(rng.choice(ORDERS)), int(rng.integers(1, 4))
            measures, weighted = [], []
            form = ["points", "planar", "turns", "turns", "rows"][trial % 5]
            dim = int(rng.integers(2, 140 if form == "rows" else 6))
            if form == "rows" and rng.random() < 0.2:
                slices = int(rng.integers(40, 400))  # more than a tile holds
            for n in sizes:
                w = weights(rng, slices, n, rng.choice(["equal", "one", "each", "uneven", "extreme"]))
                weighted.append(w is not None)
                if form == "points":
                    frames = np.linalg.qr(rng.normal(size=(slices, dim, 2)))[0]
                    points = rng.normal(size=(dim, n)) * (rng.random(n) > 0.1)
                    measures.append(kernel.from_points(points.astype(dtype), frames.astype(dtype), w))
                elif form == "rows":
                    points = (rng.normal(size=(n, dim)) * (rng.random((n, 1)) > 0.1)).astype(dtype)
                    frames = np.linalg.qr(rng.normal(size=(slices, dim, 2)))[0].astype(dtype)
                    drawn = dtype is np.float32 and rng.random() < 0.5
                    arguments = (slices, trial, 2, w) if drawn else (frames, w)
                    measures.append((kernel.from_rows_drawn if drawn else kernel.from_rows)(points, *arguments))
                    kernel.have_unit_length(points, 1e-3)
                    kernel.transpose(points, np.empty((dim, n), dtype))
                    kernel.random_frames(trial, 0, np.empty((slices, dim, 2), np.float32), threads)
                    calls += 3
                elif form == "planar":
                    measures.append(kernel.from_planar(rng.normal(size=(slices, 2, n)).astype(dtype), w))
                else:
                    kind = rng.choice(["spread", "tied", "close", "extreme"])
                    measures.append(kernel.from_turns(atoms(rng, slices, n, kind).astype(dtype), w))
            out = np.empty(slices)
            kernel.costs(*measures, p, threads, out)
            assert np.all((out >= 0) & (out <= 0.5**p * (1 + 1e-6))), (trial, p, out)
            kernel.cuts(*measures, p, threads, out)
            assert np.all(np.abs(out) <= 1)
            kernel.costs_uniform(measures[0], p, threads, out)
            assert np.all((out >= 0) & (out <= 0.5**p * (1 + 1e-6)))
            kernel.costs_pairwise([*measures, measures[0]], p, threads, np.empty((slices, 3)))
            sizes_of_costs = []
            for call, arguments in ((kernel.costs, measures), (kernel.costs_uniform, measures[:1])):
                call(*arguments, p, threads, out, True)
                assert np.all((out >= 0) & (out <= 0.5 * (1 + 1e-6))), (trial, p, out)
                sizes_of_costs.append(float(out.max()))
            kernel.turns(measures[0], threads, np.empty((slices, sizes[0]), dtype))
            groups = slices if form == "turns" else int(rng.integers(1, min(slices, 3) + 1))
            outputs = []
            for n, has_weights in zip(sizes, weighted, strict=True):
                shape = {"points": (n, dim), "rows": (n, dim), "planar": (slices, 2, n), "turns": (slices, n)}[form]
                outputs.append(np.empty(shape, dtype))
                outputs.append(np.empty((slices, n) if form == "turns" else n) if has_weights else None)
            units = [size if p > 4 and size > 0 else 1.0 for size in sizes_of_costs]
            kernel.differentiate(*measures, p, 1.0, groups, threads, out, *outputs, units[0])
            assert all(np.all(np.isfinite(g)) for g in outputs if g is not None), (trial, p)
            kernel.differentiate_uniform(measures[0], p, 1.0, groups, threads, out, *outputs[:2], units[1])
            calls += 9
            if not weighted[0] and sizes[0] >= 2:
                count, first = int(rng.integers(1, 20)), int(rng.integers(1, sizes[0]))
                kernel.costs_relabeled(
                    measures[0], first, labels(rng, count, first, sizes[0]), p, threads, np.empty((slices, count))
                )
                calls += 1
    print(f"{calls} calls of the kernel under the sanitizers, no finding")


if __name__ == "__main__":
    main(sys.argv[1])
