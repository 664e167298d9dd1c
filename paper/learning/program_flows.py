"""The flows of the paper's public program where they differ from the package's: the network "Stereo", other starts."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from sphereot.density import FlowDensity
from sphereot.flows import ExponentialMapFlow, Flow, RealNVP, StereographicFlow

_SLOPE = 0.2  # of the leaky rectifier
_LOGIT = 10.0  # of equal weights: with 100 components their sum is within 1e-6 of 1


class ProgramRealNVP(RealNVP):
    """RealNVP as the program has it: leaky rectifiers on the outputs of s and t too, and no bound on log-scales.

    Weights and biases start as those of torch, uniform within 1 / sqrt(inputs), so the untrained map is not the
    identity.
    """

    def __init__(self, features: int, n_blocks: int, *, seed: torch.Generator) -> None:
        super().__init__(features, n_blocks, seed=seed)
        for network in (*self.log_scales, *self.shifts):
            for layer in network:
                if isinstance(layer, nn.Linear):
                    bound = 1 / math.sqrt(layer.in_features)
                    nn.init.uniform_(layer.weight, -bound, bound, generator=seed)
                    nn.init.uniform_(layer.bias, -bound, bound, generator=seed)
            network.append(nn.LeakyReLU(_SLOPE))

    def _log_scale(self, k: int, held: Tensor) -> Tensor:
        log_scale: Tensor = self.log_scales[k](held)
        return log_scale


def start_as_program(flow: ExponentialMapFlow, generator: torch.Generator) -> None:
    """Give an exponential-map flow the parameters at which the program starts.

    The weights alpha are equal and have the sum 1, beta is the softplus of a uniform number, and mu is a normal vector.
    """
    with torch.no_grad():
        flow.alpha_logits.fill_(_LOGIT)
        flow.beta_roots.copy_(torch.rand(flow.beta_roots.shape, generator=generator))
        flow.mu_vectors.copy_(torch.randn(flow.mu_vectors.shape, generator=generator))


class ProgramDensity(FlowDensity):
    """Density by the flow of the program, with the training of `FlowDensity`."""

    def _new_flow(
        self, seed: int | torch.Generator | None = None, n_blocks: int | None = None, device: str | None = None
    ) -> Flow:
        if not isinstance(seed, torch.Generator) or device is not None:
            return super()._new_flow(seed, n_blocks, device)
        flow = super()._new_flow(seed, n_blocks)
        transform: Any = flow.transform
        if isinstance(transform, StereographicFlow):
            transform.plane = ProgramRealNVP(transform.dim - 1, transform.plane.n_blocks, seed=seed)
        else:
            start_as_program(transform, seed)
        return flow
