"""Labeled images: MNIST, FashionMNIST and CIFAR10, and images from a user's own file.

The paper trains autoencoders on them (Section 5) and self-supervised features on CIFAR10 (appendix).
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paper.learning.image_files import ImageSet, read_cifar, read_idx_sets, read_npz
from sphereot.datasets.earth import fetch, find_local

_DOWNLOAD_SECONDS = 3600  # CIFAR10 has 170 MB


@dataclass(frozen=True)
class _File:
    """A public file: its path below the data folder, its address and its checksum."""

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class _Record:
    """Where a data set comes from: a .npz file with a known checksum, or public files and their reader."""

    title: str
    source: str
    npz_sha256: str | None
    files: tuple[_File, ...] = ()
    read: Callable[..., tuple[ImageSet, ImageSet]] | None = None


def _idx_files(name: str, url: str, checksums: Sequence[str]) -> tuple[_File, ...]:
    """Images and labels of the train set, then of the test set."""
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(
        _File(f"images/{name}/{part}-ubyte.gz", f"{url}/{part}-ubyte.gz", checksum)
        for part, checksum in zip(parts, checksums, strict=True)
    )


# The checksums of the public files are those that TensorFlow Datasets lists (tensorflow_datasets/url_checksums).
_MNIST_FILES = _idx_files(
    "mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)
_FASHION_FILES = _idx_files(
    "fashion",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion",
    (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)
_CIFAR_FILE = _File(
    "images/cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
_RECORDS = {
    "mnist": _Record(
        "MNIST",
        "Y. LeCun, C. Cortes and C. J. C. Burges, the MNIST database of handwritten digits",
        "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",
        _MNIST_FILES,
        read_idx_sets,
    ),
    "fashion": _Record(
        "FashionMNIST",
        "H. Xiao, K. Rasul and R. Vollgraf (Zalando Research), Fashion-MNIST",
        "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469",
        _FASHION_FILES,
        read_idx_sets,
    ),
    "cifar10": _Record("CIFAR10", "A. Krizhevsky, CIFAR-10", None, (_CIFAR_FILE,), read_cifar),
    "cifar10_10k": _Record(
        "CIFAR10 (10k subset)",
        "A. Krizhevsky, CIFAR-10; 1,000 images per class for training and 200 for the test",
        "613ec83efda8ae1a47af791c2a38584473964b97c98c6b94e12cadf0da68aa20",
    ),
}

IMAGE_NAMES: Sequence[str] = tuple(_RECORDS)
"""Names of the data sets, for `load_images`."""


@dataclass(frozen=True, eq=False)
class ImageData:
    """A data set of labeled images.

    Attributes
    ----------
    name : str
        The name for `load_images`, or the name of the file without its ending.
    title : str
        The name for tables and figures, such as "FashionMNIST".
    train, test : ImageSet
        Each with `.images`, float32 of shape (n, channels, height, width) in [0, 1], and `.labels`, int64 of shape
        (n,).
    source : str
        Who collected the images, or the path of the file.
    """

    name: str
    title: str
    train: ImageSet
    test: ImageSet
    source: str


def load_images(name: str) -> ImageData:
    """Load a data set of labeled images, by name.

    Parameters
    ----------
    name : str
        "mnist" or "fashion" (60,000 and 10,000 gray images of 28 x 28 pixels for training and test), "cifar10" (50,000
        and 10,000 color images of 32 x 32 pixels) or "cifar10_10k" (a subset with 10,000 and 2,000 of them, the same
        number in each class).

    Returns
    -------
    ImageData
        With `.train`, `.test`, `.title` and `.source`.

    Raises
    ------
    ValueError
        For an unknown name, or a file with a wrong checksum.
    OSError
        If there is no file and the download fails, or the data set cannot be downloaded.

    See Also
    --------
    read_images : images from a file of your own.

    Notes
    -----
    In the folder that the environment variable SPHEREOT_DATA names, the file images/<name>.npz is used if it exists
    (not for "cifar10"). Otherwise the public files are looked for in that folder (images/mnist/*.gz,
    images/fashion/*.gz, images/cifar-10-binary.tar.gz), then in `cache_folder()`, and then downloaded. "images/" may be
    left out. Checksums are verified in all cases. "cifar10_10k" is no public file and cannot be downloaded.

    Examples
    --------
    >>> from paper.learning.images import load_images
    >>> data = load_images("mnist")  # doctest: +SKIP
    >>> data.title, data.train.images.shape, len(data.test)  # doctest: +SKIP
    ('MNIST', (60000, 1, 28, 28), 10000)
    """
    record = _RECORDS.get(name) if isinstance(name, str) else None
    if record is None:
        raise ValueError(f"name: got {name!r}; give one of {', '.join(IMAGE_NAMES)}.")
    train, test = _load(name, record)
    return ImageData(name, record.title, train, test, record.source)


def read_images(path: str | os.PathLike[str]) -> ImageData:
    """Read labeled images from a .npz file.

    Parameters
    ----------
    path : path
        A .npz file with the arrays x_train, y_train, x_test and y_test. The images x are uint8, or floats in [0, 1], of
        shape (n, height, width) for gray or (n, height, width, 3) for color images. The labels y are integers of shape
        (n,), the classes counted from 0. Nothing is ever unpickled.

    Returns
    -------
    ImageData
        With `.train` and `.test`; its name, title and source are those of the file.

    Raises
    ------
    ValueError
        For bad content, with the names of the file and the array.
    OSError
        If the file does not exist, is a directory, or may not be read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from paper.learning.images import read_images
    >>> images, labels = np.full((5, 8, 8), 255, np.uint8), np.arange(5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/own.npz", x_train=images, y_train=labels, x_test=images[:2], y_test=labels[:2])
    ...     data = read_images(f"{folder}/own.npz")
    >>> data.name, data.train.images.shape, float(data.train.images.max()), len(data.test)
    ('own', (5, 1, 8, 8), 1.0, 2)
    """
    path = Path(path)
    train, test = read_npz(path)
    return ImageData(path.stem, path.name, train, test, str(path))


def _load(name: str, record: _Record) -> tuple[ImageSet, ImageSet]:
    npz = f"images/{name}.npz"
    if record.npz_sha256 is not None:
        path = find_local(
            npz, record.npz_sha256, "remove or replace it, or read it with paper.learning.images.read_images"
        )
        if path is not None:
            return read_npz(path)
    if record.read is None:
        raise FileNotFoundError(
            f"{npz}: is not in SPHEREOT_DATA ({os.environ.get('SPHEREOT_DATA') or 'not set'}), and cannot be "
            f'downloaded, since it is no public file; load the full data set with load_images("cifar10"), or put the '
            "file in a folder and set SPHEREOT_DATA to it."
        )
    return record.read(*(fetch(file.name, file.url, file.sha256, seconds=_DOWNLOAD_SECONDS) for file in record.files))
