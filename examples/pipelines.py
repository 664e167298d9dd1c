"""Directional data in scikit-learn: a pipeline from degrees to densities, cross-validated, with weights.

python -m examples.pipelines
"""

import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sphereot import sphere
from sphereot.compat.sklearn import LonLat, UnitNorm
from sphereot.stats import SphericalKDE


def fit() -> tuple[float, float]:
    """The bandwidth that cross-validation chooses, and the mean score of five folds."""
    rng = np.random.default_rng(0)
    wind = sphere.to_lonlat(sphere.normalize(rng.normal(size=(300, 3)) * 0.3 + [1, 0, 0]))  # longitude, latitude
    pipeline = make_pipeline(LonLat(), SphericalKDE())
    search = GridSearchCV(pipeline, {"sphericalkde__bandwidth": [0.03, 0.1, 0.2, 0.5]}, cv=5).fit(wind)
    bandwidth = float(search.best_params_["sphericalkde__bandwidth"])
    scores = cross_val_score(search.best_estimator_, wind, cv=5)
    print(f"bandwidth {bandwidth:g} rad; mean log-density of held-out rows {scores.mean():.3f} ± {scores.std():.3f}")

    embeddings = rng.normal(size=(200, 16)) + 1.0  # of any length: UnitNorm brings them to the sphere
    typical = make_pipeline(UnitNorm(), SphericalKDE("rule-of-thumb")).fit(embeddings).score_samples(embeddings)
    print(f"the least typical of {len(embeddings)} embeddings is row {int(np.argmin(typical))}")
    return bandwidth, float(scores.mean())


if __name__ == "__main__":
    fit()
