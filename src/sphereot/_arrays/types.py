"""Types of public signatures: what holds points, how great circles are drawn, seeds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax
    import torch
    from typing_extensions import TypeVar  # with defaults, which `typing` has from Python 3.13 on
else:
    from typing import TypeVar


Method: TypeAlias = Literal["iid", "orthogonal", "quasi"]
"""How great circles are drawn; see `sphereot.great_circles`."""

UniformMethod: TypeAlias = Literal["iid", "orthogonal", "quasi", "exact"]
"""The same for distances to the uniform distribution, which also have the mean over all great circles."""

EstimateMethod: TypeAlias = Literal["iid", "orthogonal", "quasi", "importance"]
"""The same for estimates, which can draw great circles near the poles of tight samples more often."""

Bandwidth: TypeAlias = float | Literal["cv", "rule-of-thumb"]
"""Bandwidth of a kernel estimate in radians, or how it is chosen; see `sphereot.density.SphericalKDE`."""


class SupportsArray(Protocol):
    """An object with `__array__`: arrays of NumPy, tensors of PyTorch on the CPU, DataFrames, Series, DataArrays."""

    def __array__(self) -> Any:
        """A NumPy array of the values."""


class SupportsToNumpy(SupportsArray, Protocol):
    """An object with `to_numpy`, which no array library has: DataFrames, Series, DataArrays."""

    def to_numpy(self) -> Any:
        """A NumPy array of the values."""


class SupportsDLPack(Protocol):
    """An object with `__dlpack__`: arrays of all array libraries."""

    def __dlpack__(self) -> Any:
        """A capsule with the memory."""


class SupportsDataFrame(Protocol):
    """A table with the interchange protocol."""

    def __dataframe__(self) -> Any:
        """The table for another library."""


class SupportsArrowStream(Protocol):
    """A table with the stream protocol of Arrow."""

    def __arrow_c_stream__(self) -> Any:
        """A capsule with the columns."""


class SkyCoordinates(Protocol):
    """Sky coordinates of astropy."""

    def transform_to(self, frame: Any, /) -> Any:
        """The same locations in another frame."""


class DaskCollection(Protocol):
    """An array, a dataframe or a bag of Dask."""

    def to_delayed(self) -> Any:
        """One delayed object per partition."""


class SupportsPoints(Protocol):
    """A dataset with unit vectors as its points, such as `sphereot.datasets.EarthData`."""

    @property
    def points(self) -> Any:
        """Unit vectors (n, d)."""


Points: TypeAlias = (
    SupportsArray
    | SupportsDLPack
    | SupportsDataFrame
    | SupportsArrowStream
    | SupportsPoints
    | SkyCoordinates
    | Sequence[Sequence[float]]
)
"""Unit vectors (n, d): an array of any library, a table, sky coordinates, a dataset, or nested sequences."""

NumpyPoints: TypeAlias = (
    NDArray[Any]
    | SupportsToNumpy
    | SupportsDataFrame
    | SupportsArrowStream
    | SupportsPoints
    | SkyCoordinates
    | Sequence[Sequence[float]]
)
"""The same without arrays of libraries other than NumPy: results are NumPy arrays."""

Frame: TypeAlias = SupportsArray | SupportsDLPack | Sequence[Sequence[float]]
"""The frame of a great circle (d, 2): an array of any library, or nested sequences."""

Frames: TypeAlias = SupportsArray | SupportsDLPack | Sequence[Sequence[Sequence[float]]]
"""Frames of great circles (L, d, 2): an array of any library, or nested sequences."""

Labels: TypeAlias = SupportsArray | Sequence[int] | Sequence[str]
"""One label for each point (n,), all ints or all strings: an array of any library, a Series, or a sequence."""

Numbers: TypeAlias = SupportsArray | SupportsDLPack | Sequence[float]
"""Weights (n,): an array of any library, a Series, or a sequence."""

ArrayLike: TypeAlias = (
    SupportsArray
    | SupportsDLPack
    | SupportsDataFrame
    | float
    | Sequence[float]
    | Sequence[Sequence[float]]
    | Sequence[Sequence[Sequence[float]]]
)
"""Real numbers of any shape: an array of any library, a table, a number, or nested sequences. Text is refused."""

NumpyArrayLike: TypeAlias = (
    NDArray[Any]
    | SupportsToNumpy
    | SupportsDataFrame
    | float
    | Sequence[float]
    | Sequence[Sequence[float]]
    | Sequence[Sequence[Sequence[float]]]
)
"""The same without arrays of libraries other than NumPy: results are NumPy arrays."""

Vectors: TypeAlias = ArrayLike | SupportsArrowStream | SupportsPoints | SkyCoordinates
"""Vectors (..., d): an array of any library, whatever else holds points, or nested sequences."""

NumpyVectors: TypeAlias = NumpyArrayLike | SupportsArrowStream | SupportsPoints | SkyCoordinates
"""The same without arrays of libraries other than NumPy: results are NumPy arrays."""

Seed: TypeAlias = "int | np.random.Generator | torch.Generator | jax.Array | None"
"""An int, a generator of the array's own library (a key of JAX), or None for new random numbers each time."""

ArrayT = TypeVar("ArrayT", bound=SupportsDLPack)
"""The array type of a framework: results are of the type of the points."""

if TYPE_CHECKING:
    ResultT = TypeVar("ResultT", bound=Any, default=Any)
    ScalarT = TypeVar("ScalarT", bound=Any, default=Any)
else:
    ResultT = TypeVar("ResultT")
    """The type of the arrays in a result, such as `SSWEstimate`; without it, they are of any type."""

    ScalarT = TypeVar("ScalarT")
    """The type of the arrays of shape () in a result: NumPy has its own for them."""
