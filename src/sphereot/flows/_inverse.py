"""Inverse of a block of the exponential-map flow, by Newton's method on the sphere.

From x, the image T(x) shall go along the geodesic to y. The differential says which step of x does that to first order;
where the image does not come close enough, half the step is tried. A block is a diffeomorphism, so its differential is
nowhere singular, and T(y) is within a radian of y: the path of images is never lost on the way.
"""

import torch
from torch import Tensor

from sphereot import sphere
from sphereot.flows._expmap import differential, moments, move

_STEPS = 200
_SMALLEST_SHARE = 2.0**-40
# Lengths of y - T(x): at which to stop, and beyond which the inverse has failed.
_TARGET = {torch.float32: 1e-6, torch.float64: 1e-13}
_LIMIT = {torch.float32: 1e-4, torch.float64: 1e-9}


@torch.no_grad()
def solve(y: Tensor, slopes: Tensor, loads: Tensor, *, block: int) -> Tensor:
    """Solve T(x) = y for unit vectors x (d, n), given images y (d, n) and the slopes and loads of the block.

    Raises RuntimeError, which names the block, if T(x) misses y.
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
        # The step in the tangent space that takes the image to y to first order.
        image = image[closer]
        toward = sphere.parallel_transport(image, columns.T, sphere.log(image, y[accepted]))
        step[accepted] = torch.linalg.solve(differential(columns, at_trial[:, closer]), toward)
        pending = pending[(residual[pending] > _TARGET[y.dtype]) & (share[pending] > _SMALLEST_SHARE)]
    missed = ~(residual <= _LIMIT[y.dtype])
    if bool(missed.any()):
        raise RuntimeError(
            f"the inverse of block {block} did not converge for {int(missed.sum())} of {y.shape[0]} points, the worst "
            f"image being {float(residual.nan_to_num(nan=torch.inf).max()):.2g} away; beta is too large or "
            "the sum of alpha too near to 1 for this precision. Convert the flow and the points to float64, or train "
            "with smaller steps."
        )
    return x.T.contiguous()


def attach_gradient(x: Tensor, y: Tensor, slopes: Tensor, loads: Tensor) -> Tensor:
    """Give a solution `x` its gradients in `y` and in the parameters, by the implicit function theorem.

    One more step of Newton's method, whose matrix is held: its value is zero to rounding, its derivative the right one.
    """
    at_x = moments(x, slopes, loads)
    image = move(x, at_x[: x.shape[0]])
    matrix = differential(x, at_x.detach())
    remainder = sphere.parallel_transport(image.detach().T, x.T, y.T - image.T)
    return x + torch.linalg.solve(matrix, remainder).T
