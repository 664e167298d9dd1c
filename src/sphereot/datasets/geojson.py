"""Points in GeoJSON files (RFC 7946): features, geometries and collections, in degrees, longitude first."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from sphereot.datasets.addresses import Source
from sphereot.datasets.rows import Batch, PointFile, Selection, reading_errors

_MEMBERS = ("type", "features", "geometries", "geometry", "coordinates", "properties")
_COLLECTIONS = {"FeatureCollection": "features", "GeometryCollection": "geometries"}


def open_geojson(source: Source, selection: Selection) -> PointFile:
    """Open a GeoJSON file with points. Weights are a property of the features."""
    if selection.columns is not None or selection.prefix is not None or selection.key is not None:
        raise ValueError(f"{source}: GeoJSON has no columns and arrays to choose. Leave out columns, prefix and key.")
    name = str(selection.weights)

    def keep_needed(members: list[tuple[str, Any]]) -> dict[str, Any]:
        """Drop other properties, which are most of a file."""
        return {key: value for key, value in members if key in _MEMBERS or key == name}

    with reading_errors(source, "is not JSON, or is truncated"), source.local.open(encoding="utf-8-sig") as file:
        tree = json.load(
            file, parse_int=float, object_pairs_hook=keep_needed
        )  # not `int`, which limits the number of digits
    if not isinstance(tree, dict) or not isinstance(tree.get("type"), str):
        raise ValueError(f"{source}: is JSON, but not GeoJSON: it has no 'type', such as FeatureCollection.")
    records = list(_records(source, tree, selection.weights is not None, name))
    values = np.array([position for _, position, _ in records], dtype=np.float64).reshape(-1, 2)
    weights = np.array([weight for _, _, weight in records]) if selection.weights is not None else None
    features = [feature for feature, _, _ in records]
    return PointFile(
        source,
        ("longitude", "latitude"),
        True,
        lambda: iter([Batch(values, weights, range(len(values)))] if len(values) else []),
        locate=lambda row: f"feature {features[row]}",
        weights_name=name,
        nan_message="has no longitude and latitude" + ("" if selection.weights is None else ", or no number as weight"),
    )


def _records(source: Source, tree: Any, weighted: bool, name: str) -> Iterator[tuple[int, list[float], float]]:
    """Yield the number of the feature, longitude and latitude, and the weight of each point."""
    for number, feature in enumerate(_members(tree)):
        is_object = isinstance(feature, dict)
        properties = feature.get("properties") if is_object else None
        weight = _number(properties.get(name)) if isinstance(properties, dict) else np.nan
        geometry = feature.get("geometry") if is_object and feature.get("type") == "Feature" else feature
        for position in _positions(source, number, geometry):
            yield number, position, weight if weighted else np.nan


def _members(tree: Any) -> list[Any]:
    """Return the features or geometries of a collection, and anything else as it is in a list."""
    member = _COLLECTIONS.get(tree["type"])
    members = [tree] if member is None else tree.get(member)
    return members if isinstance(members, list) else []


def _positions(source: Source, number: int, geometry: Any) -> Iterator[list[float]]:
    """Yield longitude and latitude of the points of a geometry, and NaN if there is no geometry."""
    if geometry is None:
        yield [np.nan, np.nan]
        return
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind == "Point":
        yield _position(geometry.get("coordinates"))
    elif kind == "MultiPoint" and isinstance(geometry.get("coordinates"), list):
        for position in geometry["coordinates"]:
            yield _position(position)
    elif kind == "GeometryCollection":
        for part in _members(geometry):
            yield from _positions(source, number, part)
    else:
        raise ValueError(
            f"{source}, feature {number}: the geometry must be a Point or MultiPoint, got {kind!r}. Reduce lines and "
            "areas to points first, such as their centroids."
        )


def _position(value: Any) -> list[float]:
    if not isinstance(value, list) or len(value) < 2:
        return [np.nan, np.nan]
    return [_number(value[0]), _number(value[1])]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf
