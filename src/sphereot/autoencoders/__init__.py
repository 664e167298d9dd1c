"""Autoencoders with a latent sphere: modules, divergences to a prior, the paper's networks, training, evaluation."""

from sphereot._support.extras import require

require("torch", "sphereot.autoencoders", extra="autoencoders")

from sphereot.autoencoders.autoencoder import Losses, SphericalAutoencoder
from sphereot.autoencoders.divergences import MMD, SSW, SW, CircularGSW, Divergence, Sinkhorn, UniformSSW
from sphereot.autoencoders.features import EfficientNetFeatures, InceptionFeatures, LeNet, accuracy, train_lenet
from sphereot.autoencoders.frechet import FrechetDistance, frechet_distance
from sphereot.autoencoders.networks import Decoder28, Decoder32, Encoder28, Encoder32, paper_networks
from sphereot.autoencoders.training import TrainingHistory, encode_all, reconstruction_error, train

__all__ = [
    "MMD",
    "SSW",
    "SW",
    "CircularGSW",
    "Decoder28",
    "Decoder32",
    "Divergence",
    "EfficientNetFeatures",
    "Encoder28",
    "Encoder32",
    "FrechetDistance",
    "InceptionFeatures",
    "LeNet",
    "Losses",
    "Sinkhorn",
    "SphericalAutoencoder",
    "TrainingHistory",
    "UniformSSW",
    "accuracy",
    "encode_all",
    "frechet_distance",
    "paper_networks",
    "reconstruction_error",
    "train",
    "train_lenet",
]
