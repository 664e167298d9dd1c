"""One block of the exponential-map flow, its log-determinant and its inverse, as functions of tensors.

Let w_i = alpha_i exp(beta_i (<x, mu_i> - 1)). In the space around the sphere, the potential of Appendix B.4 has

    gradient g = sum_i w_i mu_i,     Hessian H = sum_i w_i beta_i mu_i mu_i^T.

Both are called moments, and are one product with a (K, n) array of exponentials. Let s = <x, g>, and let P be the
projection on the tangent space at x. The Riemannian gradient and Hessian are v = g - s x and A = P H P - s I. The block
is T(x) = exp_x(v). Its differential maps u to a Jacobi field along the geodesic that starts as u, with velocity A u.
After parallel transport back to x, which is an isometry, the differential is, with r = |v|,

    M = I + A along v,     M = cos(r) I + sin(r)/r A across v.

The inverse uses Newton's method on the sphere: the differential determines the step of x that moves the image T(x) to y
to first order. If the image does not come close enough, half the step is tried. A block is a diffeomorphism, so its
differential is nowhere singular, and T(y) is within a radian of y, so the path of images cannot get stuck.

Points are columns, (d, n), so that all operations run along contiguous rows.
"""

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sphereot import sphere

Stumpff = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]

_TERMS = {torch.float32: 5, torch.float64: 8}  # of series at q at most 1, where the next term is below rounding
_STEPS = 200
_SMALLEST_SHARE = 2.0**-40
# Lengths of y - T(x): at which to stop, and beyond which the inverse has failed.
_TARGET = {torch.float32: 1e-6, torch.float64: 1e-13}
_LIMIT = {torch.float32: 1e-4, torch.float64: 1e-9}


def moments(x: Tensor, slopes: Tensor, loads: Tensor) -> Tensor:
    """Sum exp(<slope, (x, 1)>) times a load over components: g (d, n), followed by H (d^2, n) if it is in `loads`.

    Parameters are points `x` (d, n), `slopes` (K, d + 1) of a block with rows (beta mu, -beta), and `loads` with rows
    alpha mu, for g, followed by alpha beta mu mu^T, for H.
    """
    return _Moments.apply(x, slopes, loads)


def move(x: Tensor, g: Tensor) -> Tensor:
    """Compute exp_x(g - <x, g> x), shape (d, n), for x and g of this shape and |g| <= 1."""
    return _Move.apply(x, g)


def move_with_log_det(x: Tensor, moments_at_x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute exp_x(v), shape (d, n), and the log-determinant (n,) of the block, from its moments at x (d, n)."""
    if x.shape[0] == 3:
        return _MoveOnS2.apply(x, moments_at_x)
    log_det: Tensor = torch.linalg.slogdet(differential(x, moments_at_x))[1]
    return move(x, moments_at_x[: x.shape[0]]), log_det


def differential(x: Tensor, moments_at_x: Tensor) -> Tensor:
    """Compute the matrices M (n, d, d) of the module's description, in the space around the sphere.

    M x = x, so the determinant is the same as on the tangent space, and the inverse maps tangent vectors to tangent
    vectors too.
    """
    dim = x.shape[0]
    g, hessian = moments_at_x[:dim].T, moments_at_x[dim:].T.reshape(-1, dim, dim)
    x = x.T
    s = _dot(x.T, g.T)[:, None]
    v = g - s * x
    c0, c1, c2, c3, _, _ = (c[:, None, None] for c in stumpff((v * v).sum(-1)))
    along, line = v[:, :, None] * v[:, None, :], x[:, :, None] * x[:, None, :]
    projection = torch.eye(dim, dtype=x.dtype, device=x.device) - line
    a = projection @ hessian @ projection - s[..., None] * projection
    # e e^T (1 - cos r) = v v^T c2 and e e^T (1 - sin(r)/r) = v v^T c3, without the direction e of v.
    return line + c0 * projection + c2 * along + c1 * a + c3 * (along @ a)


def stumpff(q: Tensor) -> Stumpff:
    """Compute the Stumpff functions c_k(q) = sum over j of (-q)^j / (2j + k)!, k = 0 to 5, for q in [0, 1].

    For q = r^2, c_0 is cos(r) and c_1 is sin(r) / r. They are smooth in q, and therefore not singular at r = 0.

    >>> c = stumpff(torch.tensor(0.25, dtype=torch.float64))
    >>> math.isclose(float(c[0]), math.cos(0.5)), math.isclose(float(c[1]), math.sin(0.5) / 0.5)
    (True, True)
    """
    # c_k = 1 / k! - q c_{k+2}, from the last term of the series backward; an even and an odd k in one pass.
    last, *factors = _factors(q.dtype, q.device)
    pairs = [last]
    for factor in factors:
        pairs.append(torch.addcmul(factor, pairs[-1], q, value=-1))
    (c4, c5), (c2, c3), (c0, c1) = pairs[-3:]
    return c0, c1, c2, c3, c4, c5


@cache
def _factors(dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Compute 1 / k! and 1 / (k + 1)!, shape (2, 1), from the largest even k to 0."""
    orders = range(2 * _TERMS[dtype] + 2, -1, -2)
    pairs = [[[1 / math.factorial(k)], [1 / math.factorial(k + 1)]] for k in orders]
    return list(torch.tensor(pairs, dtype=dtype, device=device))


@torch.no_grad()
def solve(y: Tensor, slopes: Tensor, loads: Tensor, *, block: int) -> Tensor:
    """Solve T(x) = y for unit vectors x (d, n), given images y (d, n) and the slopes and loads of the block.

    Raises a RuntimeError with the number of the block if T(x) is not close to y.
    """
    y = y.T
    x, residual = y.clone(), y.new_full((y.shape[0],), torch.inf)
    step, share = torch.zeros_like(y), y.new_ones(y.shape[0])
    pending = torch.arange(y.shape[0], device=y.device)  # indices of points that have not converged
    for _ in range(_STEPS):
        if pending.numel() == 0:
            break
        trial = sphere.exp(x[pending], share[pending, None] * step[pending])
        at_trial = moments(trial.T.contiguous(), slopes, loads)
        image = move(trial.T.contiguous(), at_trial[: y.shape[1]]).T
        distance = torch.linalg.vector_norm(y[pending] - image, dim=-1)
        closer = distance < (1 - 0.25 * share[pending]) * residual[pending]
        accepted = pending[closer]
        x[accepted], residual[accepted] = trial[closer], distance[closer]
        share[pending] = torch.where(closer, (2 * share[pending]).clamp(max=1), 0.5 * share[pending])
        columns = trial[closer].T.contiguous()
        # The step in the tangent space that moves the image to y to first order.
        image = image[closer]
        toward = sphere.parallel_transport(image, columns.T, sphere.log(image, y[accepted]))
        step[accepted] = torch.linalg.solve(differential(columns, at_trial[:, closer]), toward)
        pending = pending[(residual[pending] > _TARGET[y.dtype]) & (share[pending] > _SMALLEST_SHARE)]
    missed = ~(residual <= _LIMIT[y.dtype])
    if bool(missed.any()):
        raise RuntimeError(
            f"the inverse of block {block} did not converge for {int(missed.sum())} of {y.shape[0]} points; the "
            f"largest error is {float(residual.nan_to_num(nan=torch.inf).max()):.2g}, because beta is too large or the "
            "sum of alpha too close to 1 for this precision. Convert the flow and the points to float64, or train "
            "with smaller steps."
        )
    return x.T.contiguous()


def attach_gradient(x: Tensor, y: Tensor, slopes: Tensor, loads: Tensor) -> Tensor:
    """Attach the gradients in `y` and in the parameters to a solution `x`, by the implicit function theorem.

    One more step of Newton's method with a constant matrix is zero up to rounding, and has the right derivative.
    """
    at_x = moments(x, slopes, loads)
    image = move(x, at_x[: x.shape[0]])
    matrix = differential(x, at_x.detach())
    remainder = sphere.parallel_transport(image.detach().T, x.T, y.T - image.T)
    return x + torch.linalg.solve(matrix, remainder).T


# ---- derivatives by hand, which need less than half the time of autograd ----


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slopes: Tensor, loads: Tensor) -> Tensor:
        homogeneous = torch.cat([x, x.new_ones(1, x.shape[1])])
        exponentials = (slopes @ homogeneous).exp_()
        ctx.save_for_backward(homogeneous, slopes, loads, exponentials)
        return loads.T @ exponentials

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        (d_moments,) = cotangents
        homogeneous, slopes, loads, exponentials = ctx.saved_tensors
        d_x = d_slopes = d_loads = None
        # Products are several times as fast if the long axis of their first factor is contiguous.
        if ctx.needs_input_grad[2]:
            d_loads = (d_moments @ exponentials.T).T
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            d_exponents = (loads @ d_moments).mul_(exponentials)
            if ctx.needs_input_grad[0]:
                d_x = slopes[:, :-1].T @ d_exponents
            if ctx.needs_input_grad[1]:
                d_slopes = (homogeneous @ d_exponents.T).T
        return d_x, d_slopes, d_loads


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor) -> Tensor:
        s, v, q = _riemannian_gradient(x, g)
        c = stumpff(q)
        y, inverse_length = _endpoint(x, v, c)
        ctx.save_for_backward(x, g, s, v, y, inverse_length, *c[:4])
        return y

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor]:
        refuse_second_derivatives()
        x, g, s, v, y, inverse_length, *c = ctx.saved_tensors
        d_x, d_v, d_c0, d_c1 = _endpoint_backward(cotangents[0], x, v, y, inverse_length, c)
        d_q = torch.addcmul(d_c0 * c[1], d_c1, c[2] - c[3]).mul_(-0.5)
        return _riemannian_gradient_backward(x, g, s, v, d_x, d_v, d_q)


class _MoveOnS2(torch.autograd.Function):
    """`move_with_log_det` on S^2, where the determinant of M has a closed form in invariants of A.

    It is cos(r) + sin(r)/r (tr A + det A) - k v^T A v with k = (sin(r)/r - cos(r)) / r^2 = c_2 - c_3. For B = P H P, of
    rank 2, 2 det B = (tr B)^2 - |B|^2. B is computed from H first: near a sharp component H is large, but B is not, and
    the difference of squares of H would lose all digits.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, moments_at_x: Tensor) -> tuple[Tensor, Tensor]:
        s, v, q = _riemannian_gradient(x, moments_at_x[:3])
        c = stumpff(q)
        y, inverse_length = _endpoint(x, v, c)
        hessian = moments_at_x[3:].view(3, 3, -1)
        hx = _product(hessian, x)
        xhx = _dot(x, hx)
        pull = torch.addcmul(hx, x, xhx, value=-0.5)
        b = torch.addcmul(hessian, x[:, None], pull, value=-1).addcmul_(pull[:, None], x, value=-1)
        bv = _product(b, v)
        trace = b[0, 0] + b[1, 1] + b[2, 2]
        det = torch.addcmul((b * b).view(9, -1).sum(0), trace, trace, value=-1).mul_(-0.5)
        invariants = trace + det - s * (2 - s + trace)
        vav = torch.addcmul(_dot(v, bv), s, q, value=-1)
        determinant = torch.addcmul(c[0], c[1], invariants).addcmul_(c[2] - c[3], vav, value=-1)
        # In exact arithmetic it is positive. If a block contracts very strongly, rounding can make it negative.
        determinant.clamp_(min=torch.finfo(x.dtype).eps)
        ctx.save_for_backward(
            x, moments_at_x, s, v, q, y, inverse_length, *c, hx, xhx, pull, b, bv, trace, invariants, vav, determinant
        )
        ctx.set_materialize_grads(False)
        return y, determinant.log()

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor, Tensor]:
        refuse_second_derivatives()
        x, moments_at_x, s, v, q, y, inverse_length, *rest = ctx.saved_tensors
        c, (hx, xhx, pull, b, bv, trace, invariants, vav, determinant) = rest[:6], rest[6:]
        d_y, d_log_det = cotangents
        d_y = torch.zeros_like(y) if d_y is None else d_y
        d_det = torch.zeros_like(s) if d_log_det is None else d_log_det / determinant
        d_x, d_v, d_c0, d_c1 = _endpoint_backward(d_y, x, v, y, inverse_length, c)

        k = c[2] - c[3]
        d_invariants, d_vav = d_det * c[1], -d_det * k
        d_c0 += d_det
        d_c1.addcmul_(d_det, invariants)
        d_k = -d_det * vav
        # k' = -(c_3 - 3 (c_4 - c_5)) / 2, as c_0' = -c_1 / 2 and c_1' = -k / 2
        d_q = (d_c0 * c[1]).addcmul_(d_c1, k).addcmul_(d_k, c[3] - 3 * (c[4] - c[5])).mul_(-0.5)
        d_q.addcmul_(d_vav, s, value=-1)
        d_s = d_invariants * (2 * (s - 1) - trace) - d_vav * q
        d_v.addcmul_(d_vav, bv, value=2)

        # B enters as tr B, |B|^2 and v^T B v; then H and x as B = H - x p^T - p x^T, p = H x - x^T H x / 2 x.
        d_moments_at_x = torch.empty_like(moments_at_x)
        d_hessian = d_moments_at_x[3:].view(3, 3, -1)
        torch.mul(b, -d_invariants, out=d_hessian).addcmul_((d_vav * v)[:, None], v)
        d_moments_at_x[3::4] += d_invariants * (1 + trace - s)
        d_pull = _product(d_hessian, x).mul_(-2)
        d_xhx = _dot(d_pull, x).mul_(-0.5)
        d_x.add_(_product(d_hessian, pull), alpha=-2).addcmul_(xhx, d_pull, value=-0.5).addcmul_(d_xhx, hx)
        d_hx = torch.addcmul(d_pull, d_xhx, x)
        d_x.add_(_product(moments_at_x[3:].view(3, 3, -1), d_hx))
        d_hessian.addcmul_(d_hx[:, None], x)
        d_x, d_moments_at_x[:3] = _riemannian_gradient_backward(x, moments_at_x[:3], s, v, d_x, d_v, d_q, d_s)
        return d_x, d_moments_at_x


def refuse_second_derivatives() -> None:
    """Raise an error for `create_graph=True`; with `once_differentiable`, some second derivatives would be zero."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "the exponential-map flow has first derivatives only; call backward() or torch.autograd.grad() without "
            "create_graph=True."
        )


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(0)


def _product(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Multiply symmetric matrices (d, d, n) by vectors (d, n)."""
    return (matrices * vectors[:, None]).sum(0)


def _riemannian_gradient(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the numbers s = <x, g>, the vectors v = g - s x, and |v|^2."""
    s = _dot(x, g)
    v = torch.addcmul(g, x, s, value=-1)
    return s, v, _dot(v, v)


def _riemannian_gradient_backward(
    x: Tensor, g: Tensor, s: Tensor, v: Tensor, d_x: Tensor, d_v: Tensor, d_q: Tensor, d_s: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the cotangents of x, added to `d_x`, and of g; `d_x` and `d_v` are overwritten."""
    d_v.addcmul_(v, d_q, value=2)
    through_v = _dot(d_v, x)
    d_s = -through_v if d_s is None else d_s - through_v
    d_x.addcmul_(d_v, s, value=-1).addcmul_(g, d_s)
    return d_x, d_v.addcmul_(x, d_s)


def _endpoint(x: Tensor, v: Tensor, c: Stumpff) -> tuple[Tensor, Tensor]:
    """Compute exp_x(v), scaled to unit length so that rounding does not add up over blocks, and the scale."""
    y = (c[0] * x).addcmul_(c[1], v)
    inverse_length = _dot(y, y).rsqrt_()
    return y.mul_(inverse_length), inverse_length


def _endpoint_backward(
    d_y: Tensor, x: Tensor, v: Tensor, y: Tensor, inverse_length: Tensor, c: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the cotangents of x, v, c_0 and c_1."""
    d_y = d_y.contiguous()  # results would inherit the layout of a transposed array
    d_y = torch.addcmul(d_y, y, _dot(d_y, y), value=-1).mul_(inverse_length)
    return d_y * c[0], d_y * c[1], _dot(d_y, x), _dot(d_y, v)
