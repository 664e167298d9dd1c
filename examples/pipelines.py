"""For a scikit-learn user: a spherical density in a pipeline, chosen by cross-validation, finds unusual images.

The data are scikit-learn's digits: 1,797 images of 8 x 8 pixels, written by 43 people. Read the cells from top to
bottom, run them one at a time in an editor that supports `# %%`, or run all of them from the root of the repository:
`python -m examples.pipelines` (a few seconds). Needs `pip install 'sphereot[sklearn]'`.
"""

# %%
# The model will know the digits 0 to 8 from half of their images. The other half, and all nines, are kept for later.

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline

from sphereot.compat.sklearn import LonLat, UnitNorm
from sphereot.density import SphericalKDE

images, labels = load_digits(return_X_y=True)
known, nines = images[labels != 9], images[labels == 9]
train, test = train_test_split(known, test_size=0.5, random_state=0)

# %%
# Three steps: principal components, scaling to unit length, and a kernel density estimate on the sphere S^7. The search
# chooses the bandwidth (in radians) by the log-likelihood of held-out images; `score` of the last step is that value.

pipeline = make_pipeline(PCA(8, random_state=0), UnitNorm(), SphericalKDE())
bandwidths = [0.05, 0.1, 0.2, 0.3, 0.5, 0.8]
search = GridSearchCV(pipeline, {"sphericalkde__bandwidth": bandwidths}, cv=5).fit(train)
bandwidth = search.best_params_["sphericalkde__bandwidth"]
scores = cross_val_score(search.best_estimator_, train, cv=5)
print(f"bandwidth {bandwidth:g} rad; mean log-density of held-out images {scores.mean():.2f} ± {scores.std():.2f}")

# %%
# `score_samples` returns log-densities, which are low for images that are unlike the training images. This number
# distinguishes nines, which the model has never seen, from new images of the known digits: the area under the ROC
# curve is above 0.8 (0.5 is a random guess, 1 is perfect).

typical, unusual = search.score_samples(test), search.score_samples(nines)
is_nine = np.concatenate([np.zeros(len(test)), np.ones(len(nines))])
area = roc_auc_score(is_nine, -np.concatenate([typical, unusual]))
print(f"area under the ROC curve of nines against known digits: {area:.3f}")
print(f"the least typical of {len(test)} new images of known digits is row {int(np.argmin(typical))}")

# %%
# Tables with longitude and latitude begin with `LonLat` instead. The density of great earthquakes, in 1 / sr, is larger
# off the coast of Japan than in central Europe, and weights of the rows are an argument of `fit`.

table = np.genfromtxt(Path(__file__).with_name("great_earthquakes.csv"), delimiter=",", names=True, usecols=(1, 2, 3))
lonlat = np.column_stack([table["longitude"], table["latitude"]])
quakes = make_pipeline(LonLat(), SphericalKDE()).fit(lonlat, sphericalkde__sample_weight=table["magnitude"])
japan, europe = np.exp(quakes.score_samples(np.array([[142.0, 38.0], [10.0, 50.0]])))
print(f"density of great earthquakes: {japan:.3f} off Japan, {europe:.3g} in central Europe")
