"""Tensors for tests: points on the sphere, weights."""

import numpy as np
import torch

from helpers.generators import sphere_sample


def points(n, d, *, seed=0, shift=0.0, dtype=torch.float64, grad=False):
    x = torch.tensor(sphere_sample(np.random.default_rng([seed, n]), n, d, shift=shift), dtype=dtype)
    return x.requires_grad_(grad)


def weights(n, *, seed=0, grad=False):
    return torch.tensor(np.random.default_rng([seed, n, 1]).random(n) + 0.1).requires_grad_(grad)
