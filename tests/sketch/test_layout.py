"""Bytes of sketches: what was written is read, and everything else is one clear error."""

import hashlib
import struct
import zlib

import numpy as np
import pytest

import sphereot
from sphereot import Sketch
from sphereot.sketch.layout import HEADER

SMALL = {"n_projections": 5, "bins": 16}
FIELDS = [
    "magic", "version", "flags", "dim", "slices", "bins", "groups", "method", "widths", "seed", "digest", "length"
]  # fmt: skip


def small_sketch(weighted=False):
    weights = np.random.default_rng(0).exponential(size=30) if weighted else None
    return Sketch(3, **SMALL).update(sphereot.sphere.random_uniform(30, 3, seed=0), weights=weights)


def signed(content):
    return content + hashlib.blake2b(content, digest_size=16).digest()


def forged(data, payload=None, **changes):
    """Bytes with other header fields or payload, and a right checksum."""
    fields = dict(zip(FIELDS, HEADER.unpack_from(data), strict=True)) | changes
    body = data[HEADER.size : -16] if payload is None else payload
    if "length" not in changes:
        fields["length"] = len(body)
    return signed(HEADER.pack(*fields.values()) + body)


@pytest.mark.parametrize("weighted", [False, True])
def test_round_trip(weighted, tmp_path):
    sketch = small_sketch(weighted)
    data = sketch.to_bytes()
    assert Sketch.from_bytes(data) == sketch
    assert Sketch.from_bytes(bytearray(data)).to_bytes() == data
    sketch.save(tmp_path / "a.sketch")
    assert Sketch.load(tmp_path / "a.sketch") == sketch
    assert [file.name for file in tmp_path.iterdir()] == ["a.sketch"]
    empty = Sketch(4, **SMALL, weighted=weighted)
    assert Sketch.from_bytes(empty.to_bytes()) == empty
    undecided = Sketch(4, **SMALL)
    assert Sketch.from_bytes(undecided.to_bytes()).weighted is None


def test_bytes_are_small_where_counts_are():
    sketch = Sketch(3).update(sphereot.sphere.random_uniform(1000, 3, seed=0))
    assert len(sketch.to_bytes()) < sketch.nbytes / 8


def test_truncations_are_errors():
    data = small_sketch().to_bytes()
    for damaged in [*(data[:length] for length in range(len(data))), data + b"\0"]:
        with pytest.raises(ValueError, match=r"^data: "):
            Sketch.from_bytes(damaged)


def test_flipped_bits_are_errors():
    data = small_sketch().to_bytes()
    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 1 << (index % 8)
        with pytest.raises(ValueError, match=r"^data: "):
            Sketch.from_bytes(bytes(damaged))


@pytest.mark.parametrize("weighted", [False, True])
def test_flipped_bits_with_a_right_checksum_are_no_crash(weighted):
    """Either an error, or a sketch whose counts agree with each other."""
    data = small_sketch(weighted).to_bytes()
    rng = np.random.default_rng(0)
    raw = zlib.decompress(data[HEADER.size : -16])
    for _ in range(300):
        damaged = bytearray(raw)
        damaged[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
        try:
            sketch = Sketch.from_bytes(forged(data, zlib.compress(bytes(damaged))))
        except ValueError as error:
            assert str(error).startswith("data: ")
        else:
            assert sketch.distance_to_uniform().error_bound > 0
    for index in range(8, HEADER.size):
        damaged = bytearray(data[:-16])
        damaged[index] ^= 1 << int(rng.integers(8))
        try:
            Sketch.from_bytes(signed(bytes(damaged)))
        except ValueError as error:
            assert str(error).startswith("data: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version 2"),
        ({"dim": 2**31}, r"\(dim\b"),
        ({"dim": 0}, r"\(dim\b"),
        ({"slices": 2**16, "bins": 2**14}, "cannot hold"),
        ({"slices": 2**32 - 1}, r"\(n_projections\b"),
        ({"bins": 1}, r"\(bins\b"),
        ({"groups": 2**16, "slices": 2**16}, "times groups"),
        ({"groups": 0}, r"\(groups\b"),
        ({"method": 9}, "unknown method"),
        ({"method": 0}, "great circles of this sketch are not those"),
        ({"seed": 1}, "great circles of this sketch are not those"),
        ({"seed": 2**64 - 1}, r"\(seed\b"),
        ({"flags": 8}, "unknown method or flag"),
        ({"flags": 4}, "not whether they have weights"),
        ({"flags": 2}, "a payload, but no counts"),
        ({"flags": 7}, "impossible widths"),
        ({"widths": bytes(6)}, "impossible widths"),
        ({"widths": bytes([3, 0, 1, 0, 1, 0])}, "impossible widths"),
        ({"length": 2**60}, "the header says"),
        ({"bins": 17}, "not the size"),
    ],
)
def test_forged_headers(changes, message):
    """Sizes are checked before memory is taken."""
    with pytest.raises(ValueError, match=message):
        Sketch.from_bytes(forged(small_sketch().to_bytes(), **changes))


def one_fewer(raw):
    """Counts with one point fewer in a bin of the first circle."""
    first = next(k for k in range(8, 24) if raw[k])
    return raw[:first] + bytes([raw[first] - 1]) + raw[first + 1 :]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (lambda raw: zlib.compress(raw + bytes(10_000_000)), "not the size"),
        (lambda raw: b"\x78\x01" + bytes(range(60)), "cannot be decompressed"),
        (lambda raw: zlib.compress(struct.pack("<Q", 29) + raw[8:]), "not the number of points"),
        (lambda raw: zlib.compress(struct.pack("<q", -1) + raw[8:]), "number of points is impossible"),
        (lambda raw: zlib.compress(one_fewer(raw)), "not the number of points"),
    ],
)
def test_forged_counts(payload, message):
    data = small_sketch().to_bytes()
    with pytest.raises(ValueError, match=message):
        Sketch.from_bytes(forged(data, payload(zlib.decompress(data[HEADER.size : -16]))))


def test_what_is_not_a_sketch(tmp_path):
    (tmp_path / "no.sketch").write_bytes(b"something else")
    for call, error, message in [
        (lambda: Sketch.from_bytes("text"), TypeError, "must be bytes"),
        (lambda: Sketch.load(tmp_path / "no.sketch"), ValueError, r"no\.sketch: data: these bytes are not a sketch"),
        (lambda: Sketch.load(tmp_path / "absent.sketch"), FileNotFoundError, r"absent\.sketch"),
    ]:
        with pytest.raises(error, match=message):
            call()
