"""The inverse of a block of the exponential-map flow: Newton's method on the sphere.

From x, the image T(x) shall go along the geodesic to y. The differential says which step of x does that to first order;
where the image does not come close enough, half the step is tried. A block is a diffeomorphism, so its differential is
nowhere singular, and T(y) is within a radian of y: the path of images is never lost on the way.
"""

import torch
from torch import Tensor

from sphereot import sphere
from sphereot.flows._expmap import differential, moments, move

__all__ = ["attach_gradient", "solve"]

_STEPS = 200
_LEAST_STEP = 2.0**-40
# Lengths of y - T(x): at which to stop, and beyond which the inverse has failed.
_TARGET = {torch.float32: 1e-6, torch.float64: 1e-13}
_LIMIT = {torch.float32: 1e-4, torch.float64: 1e-9}


@torch.no_grad()
def solve(y: Tensor, slopes: Tensor, loads: Tensor, *, block: int) -> Tensor:
    """Points x with T(x) = y.

    Parameters
    ----------
    y : tensor, shape (d, n)
        Images.
    slopes, loads
        Of the block, as in `moments`, with the rows of the Hessian.
    block : int
        Its number, for the message.

    Returns
    -------
    tensor, shape (d, n)
        Unit vectors.

    Raises
    ------
    RuntimeError
        If T(x) misses y.
    """
    y = y.T
    x, residual = y.clone(), y.new_full((y.shape[0],), torch.inf)
    step, share = torch.zeros_like(y), y.new_ones(y.shape[0])
    at = torch.arange(y.shape[0], device=y.device)  # points that are not there yet
    for _ in range(_STEPS):
        if at.numel() == 0:
            break
        trial = sphere.exp(x[at], share[at, None] * step[at])
        found = moments(trial.T.contiguous(), slopes, loads)
        image = move(trial.T.contiguous(), found[: y.shape[1]]).T
        left = torch.linalg.vector_norm(y[at] - image, dim=-1)
        closer = left < (1 - 0.25 * share[at]) * residual[at]
        taken = at[closer]
        x[taken], residual[taken] = trial[closer], left[closer]
        share[at] = torch.where(closer, (2 * share[at]).clamp(max=1), 0.5 * share[at])
        columns = trial[closer].T.contiguous()
        step[taken] = _newton_step(columns, found[:, closer], image[closer], y[taken])
        at = at[(residual[at] > _TARGET[y.dtype]) & (share[at] > _LEAST_STEP)]
    missed = ~(residual <= _LIMIT[y.dtype])
    if bool(missed.any()):
        raise RuntimeError(
            f"the inverse of block {block} did not converge: {int(missed.sum())} of {y.shape[0]} points are not found, "
            f"the worst image being {float(residual.nan_to_num(nan=torch.inf).max()):.2g} away; beta is too large or "
            "the sum of alpha too near to 1 for this precision. Convert the flow and the points to float64, or train "
            "with smaller steps."
        )
    return x.T.contiguous()


def attach_gradient(x: Tensor, y: Tensor, slopes: Tensor, loads: Tensor) -> Tensor:
    """`x`, a solution, with the gradients in `y` and in the block that the implicit function theorem gives.

    One more step of Newton's method, whose matrix is held: its value is zero to rounding, its derivative the right one.
    """
    found = moments(x, slopes, loads)
    image = move(x, found[: x.shape[0]])
    matrix = differential(x, found.detach())
    remainder = sphere.parallel_transport(image.detach().T, x.T, y.T - image.T)
    return x + torch.linalg.solve(matrix, remainder).T


def _newton_step(x: Tensor, found: Tensor, image: Tensor, y: Tensor) -> Tensor:
    """The step at x, in the tangent space there, that takes the image to y to first order; rows."""
    toward = sphere.parallel_transport(image, x.T, sphere.log(image, y))
    step: Tensor = torch.linalg.solve(differential(x, found), toward)
    return step
