"""Image data sets: published facts of the real files, the formats byte by byte, where files come from, bad files."""

import functools
import gzip
import hashlib
import http.server
import io
import os
import pickle
import struct
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paper.learning import image_files, images
from sphereot import datasets

pytest.importorskip("pooch")

FOLDER = os.environ.get("SPHEREOT_DATA", "")
needs_data = pytest.mark.skipif(
    not Path(FOLDER, "images").is_dir(), reason="SPHEREOT_DATA names no folder with images/"
)
SHAPES = {
    "mnist": ((60000, 1, 28, 28), (10000, 1, 28, 28)),
    "fashion": ((60000, 1, 28, 28), (10000, 1, 28, 28)),
    "cifar10_10k": ((10000, 3, 32, 32), (2000, 3, 32, 32)),
}
# Images per class, as published with the data.
COUNTS = {
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
    "fashion": ([6000] * 10, [1000] * 10),
    "cifar10_10k": ([1000] * 10, [200] * 10),
}
# Mean and standard deviation per channel of the training pixels, as commonly used to standardize inputs. Those of
# CIFAR10 are of the full set, which the subset meets within its sampling error.
MOMENTS = {
    "mnist": ([0.1307], [0.3081], 1e-4),
    "fashion": ([0.2860], [0.3530], 1e-4),
    "cifar10_10k": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616], 3e-3),
}
TITLES = {"mnist": "MNIST", "fashion": "FashionMNIST", "cifar10_10k": "CIFAR10 (10k subset)"}


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data folder, an empty cache, and no network."""
    monkeypatch.delenv("SPHEREOT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for scheme in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path


@pytest.fixture
def server(tmp_path):
    """A folder, the address under which it is served, and the requests that came."""
    folder, requests = tmp_path / "served", []
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            requests.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}", requests
        running.shutdown()
        thread.join()


# ---- the real data ----


@needs_data
@pytest.mark.parametrize("name", SHAPES)
def test_published_facts(name):
    data = images.load_images(name)
    assert (data.name, data.title) == (name, TITLES[name])
    assert data.source
    for part, shape, counts in zip((data.train, data.test), SHAPES[name], COUNTS[name], strict=True):
        assert part.images.shape == shape
        assert len(part) == shape[0]
        assert (part.images.dtype, part.labels.dtype) == (np.float32, np.int64)
        assert part.images.flags.c_contiguous
        assert (part.images.min(), part.images.max()) == (0, 1)
        assert np.bincount(part.labels).tolist() == counts
    mean, std, tolerance = MOMENTS[name]
    pixels = data.train.images
    assert_allclose(pixels.mean((0, 2, 3), dtype=np.float64), mean, atol=tolerance)
    assert_allclose(pixels.std((0, 2, 3), dtype=np.float64), std, atol=tolerance)


@needs_data
def test_channels_are_moved_not_mixed():
    """Pixel (row, column, channel) of the file is pixel (channel, row, column) of the set."""
    with np.load(Path(FOLDER, "images", "cifar10_10k.npz"), allow_pickle=False) as file:
        x = file["x_test"]
    pixels = images.load_images("cifar10_10k").test.images
    for index, row, column, channel in [(0, 0, 0, 0), (7, 3, 30, 1), (1999, 31, 5, 2)]:
        assert round(float(pixels[index, channel, row, column]) * 255) == x[index, row, column, channel]


def test_names():
    assert images.IMAGE_NAMES == ("mnist", "fashion", "cifar10", "cifar10_10k")
    for name in ("MNIST", None):
        with pytest.raises(ValueError, match=f"name: got {name!r}; give one of mnist, fashion, cifar10, cifar10_10k"):
            images.load_images(name)


# ---- idx files and the CIFAR10 archive, written byte by byte ----


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    return gzip.compress(header + bytes(array.ravel().tolist()))


def gray_set(seed, n):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 5, 4), np.uint8), rng.integers(0, 10, n, np.uint8)


def write_idx_sets(folder):
    """Four idx files with 7 images for training and 3 for the test; returns their arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    (x, y), (x_test, y_test) = gray_set(0, 7), gray_set(1, 3)
    for name, array in [
        ("train-images-idx3-ubyte.gz", x),
        ("train-labels-idx1-ubyte.gz", y),
        ("t10k-images-idx3-ubyte.gz", x_test),
        ("t10k-labels-idx1-ubyte.gz", y_test),
    ]:
        (folder / name).write_bytes(idx(array))
    return x, y, x_test, y_test


def cifar_record(label, image):
    red, green, blue = image
    return bytes([label]) + red.tobytes() + green.tobytes() + blue.tobytes()


def cifar_archive(path, **changed):
    """An archive like the public one, with 2 images per file; `changed` replaces the content of a file."""
    rng = np.random.default_rng(2)
    names = ["data_batch_5", "data_batch_1", "test_batch", "data_batch_4", "data_batch_2", "data_batch_3"]
    content = {}
    pixels, labels = {}, {}
    for name in names:
        pixels[name] = rng.integers(0, 256, (2, 3, 32, 32), np.uint8)
        labels[name] = rng.integers(0, 10, 2)
        content[name] = b"".join(map(cifar_record, labels[name], pixels[name]))
    content |= changed
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            if content[name] is not None:
                info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
                info.size = len(content[name])
                archive.addfile(info, io.BytesIO(content[name]))
    return pixels, labels


def assert_set(part, pixels, labels):
    assert (part.images.dtype, part.labels.dtype) == (np.float32, np.int64)
    assert_array_equal(part.images, pixels.astype(np.float32) / np.float32(255))
    assert_array_equal(part.labels, labels)


def test_idx_round_trip(tmp_path):
    x, y, x_test, y_test = write_idx_sets(tmp_path)
    names = ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"]
    train, test = image_files.read_idx_sets(*(tmp_path / f"{name}-ubyte.gz" for name in names))
    assert_set(train, x.reshape(7, 1, 5, 4), y)
    assert_set(test, x_test.reshape(3, 1, 5, 4), y_test)


def test_cifar_round_trip(tmp_path):
    """Batches are joined in the order of their numbers, whatever their order in the archive."""
    pixels, labels = cifar_archive(tmp_path / "cifar.tar.gz")
    train, test = image_files.read_cifar(tmp_path / "cifar.tar.gz")
    order = [f"data_batch_{number}" for number in range(1, 6)]
    assert_set(train, np.concatenate([pixels[k] for k in order]), np.concatenate([labels[k] for k in order]))
    assert_set(test, pixels["test_batch"], labels["test_batch"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with the bytes , but an idx file of bytes with 1 dimension begins with 00000801"),
        (bytes([0, 0, 8, 3, 0, 0, 0, 1]), "begins with the bytes 00000803, but"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1]), "begins with the bytes 00000d01, but"),
        (bytes([0, 0, 8, 1, 0, 0]), "ends after 6 of the 8 bytes of its header"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 2, 5]), r"has 1 bytes of data, but 2 for its shape \(2,\) are expected"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 5, 5]), "has 3 bytes of data, but 2"),
        (bytes([0, 0, 8, 1, 255, 255, 255, 255]), "has 0 bytes of data, but 4,294,967,295"),
    ],
)
def test_bad_idx(tmp_path, content, message):
    (tmp_path / "labels.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=rf"labels\.gz: {message}.*; get it again\."):
        image_files.read_idx(tmp_path / "labels.gz", 1)


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"x" + b, lambda b: b[:20] + b"\0\0\0" + b[23:]])
def test_damaged_gzip(tmp_path, damage):
    (tmp_path / "labels.gz").write_bytes(damage(idx(np.arange(200, dtype=np.uint8))))
    with pytest.raises(ValueError, match=r"labels\.gz: is not a gzip file, or is damaged \(.+\); get it again\."):
        image_files.read_idx(tmp_path / "labels.gz", 1)


def test_idx_files_of_different_lengths(tmp_path):
    write_idx_sets(tmp_path)
    pair = tmp_path / "train-images-idx3-ubyte.gz", tmp_path / "t10k-labels-idx1-ubyte.gz"
    with pytest.raises(ValueError, match=r"t10k-labels.*\.gz: has 3 labels, but .*train-images.*\.gz has 7 images"):
        image_files.read_idx_sets(*pair, *pair)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data_batch_3": None}, r"has no data_batch_3\.bin in cifar-10-batches-bin"),
        ({"data_batch_3": b""}, r"data_batch_3\.bin has 0 bytes, but a positive multiple of 3,073 is expected"),
        ({"test_batch": bytes(3074)}, r"test_batch\.bin has 3,074 bytes, but"),
        ({"test_batch": bytes([10]) + bytes(3072)}, r"test_batch\.bin has the label 10, but labels below 10"),
    ],
)
def test_bad_cifar(tmp_path, changed, message):
    path = tmp_path / "cifar.tar.gz"
    cifar_archive(path, **changed)
    with pytest.raises(ValueError, match=rf"cifar\.tar\.gz: {message}.*; get it again\."):
        image_files.read_cifar(path)


@pytest.mark.parametrize("damage", [lambda b: b[:5000], lambda b: b"", lambda b: b"x" + b])
def test_damaged_tar(tmp_path, damage):
    path = tmp_path / "cifar.tar.gz"
    cifar_archive(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"cifar\.tar\.gz: is not a \.tar\.gz archive, or is damaged \(.+\); get"):
        image_files.read_cifar(path)


# ---- where the files come from ----


def served_files(monkeypatch, name, folder, url):
    """Replace addresses and checksums of a data set by those of the files in a served folder."""
    record = images._RECORDS[name]
    files = tuple(
        images._File(
            file.name,
            f"{url}/{Path(file.name).name}",
            hashlib.sha256((folder / Path(file.name).name).read_bytes()).hexdigest(),
        )
        for file in record.files
    )
    monkeypatch.setitem(
        images._RECORDS,
        name,
        images._Record(record.title, record.source, record.npz_sha256, files, record.read),
    )


@pytest.mark.parametrize("name", ["mnist", "fashion"])
def test_idx_files_are_downloaded_once(nowhere, server, monkeypatch, name):
    folder, url, requests = server
    x, y, x_test, y_test = write_idx_sets(folder)
    served_files(monkeypatch, name, folder, url)
    for _ in range(2):
        data = images.load_images(name)
        assert_set(data.train, x[:, None], y)
        assert_set(data.test, x_test[:, None], y_test)
    assert data.title == TITLES[name]
    assert len(requests) == 4
    assert len(os.listdir(datasets.cache_folder() / "images" / name)) == 4


def test_cifar_is_downloaded_once(nowhere, server, monkeypatch):
    folder, url, requests = server
    _, labels = cifar_archive(folder / "cifar-10-binary.tar.gz")
    served_files(monkeypatch, "cifar10", folder, url)
    for _ in range(2):
        data = images.load_images("cifar10")
        assert (data.title, data.train.images.shape) == ("CIFAR10", (10, 3, 32, 32))
        assert_array_equal(data.test.labels, labels["test_batch"])
    assert requests == ["/cifar-10-binary.tar.gz"]


@pytest.mark.parametrize("below", ["images/mnist", "mnist"])
def test_public_files_in_a_folder(nowhere, monkeypatch, below):
    """The two data sets have files of the same names: those of one are not taken for the other's."""
    own = nowhere / "own"
    x = write_idx_sets(own / below)[0]
    monkeypatch.setenv("SPHEREOT_DATA", str(own))
    served_files(monkeypatch, "mnist", own / below, "http://127.0.0.1:9")
    assert_array_equal(images.load_images("mnist").train.images, x[:, None] / np.float32(255))
    with pytest.raises(OSError, match=r"images/fashion/train-images.*gz: is neither in SPHEREOT_DATA \(.*own\)"):
        images.load_images("fashion")
    (own / below / "t10k-labels-idx1-ubyte.gz").write_bytes(b"another file")
    with pytest.raises(ValueError, match=r"t10k-labels.*gz: the sha256 must be .*put the right file there"):
        images.load_images("mnist")


def test_npz_comes_first_and_its_checksum_is_verified(nowhere, monkeypatch):
    own = nowhere / "own"
    own.mkdir()
    save(own / "cifar10_10k.npz", **colors())
    monkeypatch.setenv("SPHEREOT_DATA", str(own))
    with pytest.raises(ValueError, match=r"cifar10_10k\.npz: the sha256 must be .*read_images\."):
        images.load_images("cifar10_10k")
    sha256 = hashlib.sha256((own / "cifar10_10k.npz").read_bytes()).hexdigest()
    monkeypatch.setitem(images._RECORDS, "cifar10_10k", images._Record("title", "source", sha256))
    assert len(images.load_images("cifar10_10k").train) == 6
    (own / "cifar10.npz").write_bytes(b"is not looked at")
    with pytest.raises(OSError, match=r"images/cifar-10-binary\.tar\.gz: is neither in SPHEREOT_DATA"):
        images.load_images("cifar10")


def test_the_subset_cannot_be_downloaded(nowhere, monkeypatch):
    message = r'cifar10_10k\.npz: is not in SPHEREOT_DATA \({}\), and cannot be downloaded.*load_images\("cifar10"\)'
    with pytest.raises(FileNotFoundError, match=message.format("not set")):
        images.load_images("cifar10_10k")
    monkeypatch.setenv("SPHEREOT_DATA", str(nowhere))
    with pytest.raises(FileNotFoundError, match=message.format(nowhere)):
        images.load_images("cifar10_10k")


def test_neither_file_nor_network(nowhere):
    for name, host in [("mnist", "storage.googleapis"), ("fashion", "raw.githubuser"), ("cifar10", "www.cs.toronto")]:
        with pytest.raises(OSError, match=rf"cannot be downloaded from https://{host}.*set SPHEREOT_DATA"):
            images.load_images(name)


def test_checksums_have_the_form_of_sha256():
    checksums = [file.sha256 for record in images._RECORDS.values() for file in record.files]
    checksums += [record.npz_sha256 for record in images._RECORDS.values() if record.npz_sha256]
    assert len(set(checksums)) == 12
    assert all(len(checksum) == 64 and set(checksum) <= set("0123456789abcdef") for checksum in checksums)


# ---- a file of one's own ----


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def grays(**changed):
    (x, y), (x_test, y_test) = gray_set(3, 6), gray_set(4, 2)
    return {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test} | changed


def colors():
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (8, 4, 5, 3), np.uint8)
    return {"x_train": x[:6], "y_train": np.arange(6), "x_test": x[6:], "y_test": np.arange(2)}


def test_gray_images(tmp_path):
    arrays = grays()
    data = images.read_images(str(save(tmp_path / "own.npz", **arrays)))
    assert (data.name, data.title, data.source) == ("own", "own.npz", str(tmp_path / "own.npz"))
    assert_set(data.train, arrays["x_train"][:, None], arrays["y_train"])
    assert_set(data.test, arrays["x_test"][:, None], arrays["y_test"])


def test_color_images(tmp_path):
    arrays = colors()
    data = images.read_images(save(tmp_path / "own.npz", **arrays))
    expected = np.stack([arrays["x_train"][..., channel] for channel in range(3)], 1)
    assert_set(data.train, expected, arrays["y_train"])
    assert data.train.images.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["f2", "<f4", ">f4", "f8"])
@pytest.mark.parametrize("trailing", [(), (1,)])
def test_floats_are_taken_as_they_are(tmp_path, dtype, trailing):
    x = np.linspace(0, 1, 40).reshape(2, 5, 4, *trailing).astype(dtype)
    y = np.array([3, 0], ">i2")
    np.savez_compressed(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    part = images.read_images(tmp_path / "own.npz").test
    assert part.images.dtype == np.float32
    assert part.images.dtype.isnative
    assert_array_equal(part.images, x.reshape(2, 1, 5, 4).astype(np.float32))
    assert part.labels.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x_train": np.zeros((6, 20), np.uint8)}, r"x_train has shape \(6, 20\), but x_test \(2, 5, 4\)"),
        ({"x_train": np.zeros((6, 20), np.uint8), "x_test": np.zeros((2, 20), np.uint8)},
         r"x_train has shape \(6, 20\), but \(n, height, width\) .*reorder its axes"),
        ({"x_train": np.zeros((6, 3, 5, 4), np.uint8), "x_test": np.zeros((2, 3, 5, 4), np.uint8)},
         r"x_train has shape \(6, 3, 5, 4\), but .*\(n, height, width, 3\) for color"),
        ({"x_test": np.zeros((2, 5, 5), np.uint8)},
         r"x_train has shape \(6, 5, 4\), but x_test \(2, 5, 5\); images of one size"),
        ({"x_test": np.zeros((0, 5, 4), np.uint8)}, r"x_test has shape \(0, 5, 4\), which is empty"),
        ({"x_train": np.zeros((6, 5, 4), np.int64)}, r"x_train has dtype int64; save uint8, or floats in \[0, 1\]"),
        ({"x_train": np.full((6, 5, 4), "a")}, r"x_train has dtype <U1; save uint8"),
        ({"x_train": np.full((6, 5, 4), np.nan)}, "x_train has NaN; replace it"),
        ({"x_train": np.full((6, 5, 4), np.inf)}, "x_train has floats from inf to inf"),
        ({"x_test": np.linspace(-1, 255, 40).reshape(2, 5, 4)}, r"x_test has floats from -1 to 255, but .*\[0, 1\]"),
        ({"y_train": np.arange(5)}, r"y_train has shape \(5,\), but 6 images of this set need labels of shape \(6,\)"),
        ({"y_train": np.arange(6)[:, None]}, r"y_train has shape \(6, 1\), but"),
        ({"y_test": np.zeros(2)}, "y_test has dtype float64; save integers"),
        ({"y_test": np.array([1, -1])}, "y_test has the label -1; save the classes counted from 0"),
        ({"x_train": np.array([{}])}, "holds Python objects, which are never unpickled"),
    ],
)  # fmt: skip
def test_bad_arrays(tmp_path, changed, message):
    with pytest.raises(ValueError, match=rf"own\.npz: {message}") as refused:
        images.read_images(save(tmp_path / "own.npz", **grays(**changed)))
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("missing", [["y_train"], ["y_train", "y_test"], ["x_train", "y_train", "x_test", "y_test"]])
def test_missing_arrays(tmp_path, missing):
    arrays = {name: array for name, array in grays().items() if name not in missing}
    message = rf"own\.npz: has no {', '.join(missing)}; it needs the arrays x_train, y_train, x_test, y_test\."
    with pytest.raises(ValueError, match=message):
        images.read_images(save(tmp_path / "own.npz", other=np.zeros(1), **arrays))


def flipped(content):
    """The content with a changed byte in the data of the first array."""
    return content[:300] + bytes([content[300] ^ 1]) + content[301:]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: b"", "not a zip file"),
        (lambda content: content[:-100], "not a zip file"),
        (lambda content: pickle.dumps({"x_train": 1}), "not a zip file"),
        (flipped, "Bad CRC"),
    ],
)
def test_damaged_npz(tmp_path, damage, reason):
    path = save(tmp_path / "own.npz", **grays())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"own\.npz: is not a \.npz archive, or is damaged \(.*{reason}.*\); save"):
        images.read_images(path)


def npy_header(shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return header.getvalue()


@pytest.mark.parametrize("content", [b"", b"no array", npy_header((9, 5, 4)) + bytes(100)])
def test_sound_archive_with_a_bad_array(tmp_path, content):
    """The checksums of the archive agree; the last array declares more data than there are."""
    path = save(tmp_path / "own.npz", **{name: array for name, array in grays().items() if name != "x_train"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_train.npy", content)
    with pytest.raises(ValueError, match=r"own\.npz: is not a \.npz archive, or is damaged \(.+\); save"):
        images.read_images(path)


def test_archive_made_to_exhaust_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "_ALWAYS_ALLOWED_BYTES", 1 << 16)
    zeros = np.zeros((2000, 28, 28), np.uint8)
    arrays = grays(x_train=zeros, y_train=np.zeros(2000, int), x_test=zeros, y_test=np.zeros(2000, int))
    np.savez_compressed(tmp_path / "own.npz", **arrays)
    with pytest.raises(ValueError, match=r"own\.npz: x_train\.npy takes 2 MB in memory, more than 100 times its 0\.00"):
        images.read_images(tmp_path / "own.npz")
    assert len(images.read_images(save(tmp_path / "own.npz", **arrays)).train) == 2000


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        images.read_images(tmp_path / "missing.npz")
    with pytest.raises(IsADirectoryError):
        images.read_images(tmp_path)
