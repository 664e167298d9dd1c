"""Parameters of the potentials of the exponential-map flow: constraints, and the coefficients that the blocks use.

Free parameters become alpha, beta and mu, and these the slopes and loads of `_expmap.moments`, for all blocks at once.
Gradients are written by hand: the arrays are small, and autograd would spend longer on its records than on the numbers.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from sphereot.flows._expmap import refuse_second_derivatives

__all__ = ["coefficients", "constrained"]


def constrained(logits: Tensor, roots: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Map free parameters to the weights alpha, concentrations beta and centers mu of the potentials.

    Parameters
    ----------
    logits, roots : tensor, shape (B, K)
        Free parameters. Weights are a softmax with one more term, of logit 0, that takes the rest of the sum;
        concentrations a softplus.
    vectors : tensor, shape (B, K, d)
        Vectors whose directions are the centers.

    Returns
    -------
    alpha, beta : tensor, shape (B, K)
    mu : tensor, shape (B, K, d)
    """
    rest = logits.new_zeros(logits.shape[0], 1)
    alpha = torch.softmax(torch.cat([logits, rest], dim=-1), dim=-1)[..., :-1]
    return alpha, softplus(roots), normalize(vectors, dim=-1)


def coefficients(logits: Tensor, roots: Tensor, vectors: Tensor, *, hessian: bool) -> tuple[Tensor, Tensor]:
    """Slopes (beta mu, -beta), shape (B, K, d + 1), and loads alpha mu, followed by alpha beta mu mu^T for the Hessian.

    Loads have shape (B, K, d) or (B, K, d + d^2).
    """
    return _Coefficients.apply(logits, roots, vectors, hessian)


class _Coefficients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, roots: Tensor, vectors: Tensor, hessian: bool) -> tuple[Tensor, Tensor]:
        alpha, beta, mu = constrained(logits, roots, vectors)
        ctx.save_for_backward(alpha, beta, mu, roots, vectors)
        alpha, beta = alpha[..., None], beta[..., None]
        slopes = torch.cat([beta * mu, -beta], dim=-1)
        loads = alpha * mu
        if hessian:
            outer = mu[..., :, None] * (beta * loads)[..., None, :]
            loads = torch.cat([loads, outer.flatten(-2)], dim=-1)
        return slopes, loads

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        refuse_second_derivatives()
        d_slopes, d_loads = cotangents
        alpha, beta, mu, roots, vectors = ctx.saved_tensors
        dim = mu.shape[-1]
        d_beta_mu, d_alpha_mu = d_slopes[..., :dim], d_loads[..., :dim]
        d_mu = (beta[..., None] * d_beta_mu).addcmul_(alpha[..., None], d_alpha_mu)
        d_alpha = (mu * d_alpha_mu).sum(-1)
        d_beta = (mu * d_beta_mu).sum(-1).sub_(d_slopes[..., dim])
        if d_loads.shape[-1] > dim:
            d_outer = d_loads[..., dim:].unflatten(-1, (dim, dim))
            pull = ((d_outer + d_outer.mT) * mu[..., None, :]).sum(-1)
            d_product = (mu * pull).sum(-1).mul_(0.5)  # of alpha beta
            d_mu.addcmul_((alpha * beta)[..., None], pull)
            d_alpha.addcmul_(beta, d_product)
            d_beta.addcmul_(alpha, d_product)
        d_logits = alpha * (d_alpha - (alpha * d_alpha).sum(-1, keepdim=True))
        d_vectors = torch.addcmul(d_mu, mu, (mu * d_mu).sum(-1, keepdim=True), value=-1)
        d_vectors.div_(torch.linalg.vector_norm(vectors, dim=-1, keepdim=True))
        return d_logits, d_beta.mul_(torch.sigmoid(roots)), d_vectors, None
