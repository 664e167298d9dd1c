"""Types of public signatures: containers of points, methods of drawing great circles, seeds."""

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
"""Methods for distances to the uniform distribution; "exact" is the mean over all great circles."""

EstimateMethod: TypeAlias = Literal["iid", "orthogonal", "quasi", "importance"]
"""Methods for estimates; "importance" draws great circles near the poles of tight samples more often."""


class SupportsArray(Protocol):
    """An object with `__array__`: arrays of NumPy, tensors of PyTorch on the CPU, DataFrames, Series, DataArrays."""

    def __array__(self) -> Any: ...


class SupportsToNumpy(SupportsArray, Protocol):
    """An object with `to_numpy`, which no array library has: DataFrames, Series, DataArrays."""

    def to_numpy(self) -> Any:
        """Return the values as a NumPy array."""


class SupportsDLPack(Protocol):
    """An object with `__dlpack__`: arrays of all array libraries."""

    def __dlpack__(self) -> Any: ...


class SupportsDataFrame(Protocol):
    """A table with the interchange protocol."""

    def __dataframe__(self) -> Any: ...


class SupportsArrowStream(Protocol):
    """A table with the stream protocol of Arrow."""

    def __arrow_c_stream__(self) -> Any: ...


class SkyCoordinates(Protocol):
    """Sky coordinates of astropy."""

    def transform_to(self, frame: Any, /) -> Any:
        """Return the same locations in another frame."""


class SupportsPoints(Protocol):
    """A dataset with unit vectors as its points, such as `sphereot.datasets.EarthData`."""

    @property
    def points(self) -> Any:
        """Unit vectors (n, d)."""


_Row: TypeAlias = Sequence[float]
_Containers: TypeAlias = SupportsDataFrame | SupportsArrowStream | SupportsPoints | SkyCoordinates

Points: TypeAlias = SupportsArray | SupportsDLPack | _Containers | Sequence[_Row]
"""Unit vectors (n, d): an array of any library, a table, sky coordinates, a dataset, or nested sequences."""

NumpyPoints: TypeAlias = NDArray[Any] | SupportsToNumpy | _Containers | Sequence[_Row]
"""Points except arrays of libraries other than NumPy: results are NumPy arrays."""

Frame: TypeAlias = SupportsArray | SupportsDLPack | Sequence[_Row]
"""The frame of a great circle (d, 2): an array of any library, or nested sequences."""

Frames: TypeAlias = SupportsArray | SupportsDLPack | Sequence[Sequence[_Row]]
"""Frames of great circles (L, d, 2): an array of any library, or nested sequences."""

Labels: TypeAlias = SupportsArray | Sequence[int] | Sequence[str]
"""One label for each point (n,), all ints or all strings: an array of any library, a Series, or a sequence."""

Numbers: TypeAlias = SupportsArray | SupportsDLPack | _Row
"""Weights (n,): an array of any library, a Series, or a sequence."""

_Nested: TypeAlias = float | _Row | Sequence[_Row] | Sequence[Sequence[_Row]]

ArrayLike: TypeAlias = SupportsArray | SupportsDLPack | SupportsDataFrame | _Nested
"""Real numbers of any shape: an array of any library, a table, a number, or nested sequences, but not text."""

NumpyArrayLike: TypeAlias = NDArray[Any] | SupportsToNumpy | SupportsDataFrame | _Nested
"""Real numbers except arrays of libraries other than NumPy: results are NumPy arrays."""

Vectors: TypeAlias = ArrayLike | SupportsArrowStream | SupportsPoints | SkyCoordinates
"""Vectors (..., d): an array of any library, another container of points, or nested sequences."""

NumpyVectors: TypeAlias = NumpyArrayLike | SupportsArrowStream | SupportsPoints | SkyCoordinates
"""Vectors except arrays of libraries other than NumPy: results are NumPy arrays."""

Seed: TypeAlias = "int | np.random.Generator | torch.Generator | jax.Array | None"
"""An int, a generator of the array's own library (a key of JAX), or None for new random numbers each time."""

if TYPE_CHECKING:
    ArrayT = TypeVar("ArrayT", bound=SupportsDLPack, default=Any)
    ResultT = TypeVar("ResultT", bound=Any, default=Any)
    ScalarT = TypeVar("ScalarT", bound=Any, default=Any)
else:
    ArrayT = TypeVar("ArrayT", bound=SupportsDLPack)
    """The array type of a framework: results have the type of the points."""

    ResultT = TypeVar("ResultT")
    """The type of the arrays in a result, such as `SSWEstimate`; any type if it is not given."""

    ScalarT = TypeVar("ScalarT")
    """The type of the arrays of shape () in a result, for which NumPy has its own type."""
