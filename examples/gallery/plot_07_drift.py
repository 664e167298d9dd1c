"""
Drift of embeddings over time
=============================

A model in production sees new data every week. `drift_test` compares each week with a reference, and corrects for the
number of weeks, so that the probability of any false alarm is at most 5 %. The result also has the great circle on
which a week differs most.
"""

import matplotlib.pyplot as plt
import numpy as np

from sphereot import plotting, sphere
from sphereot.stats import drift_test

# %%
# Embeddings in 32 dimensions, in five clusters. From week 8 on, a growing share of them belongs to a new topic that the
# reference does not have.

rng = np.random.default_rng(0)
topics = sphere.random_uniform(6, 32, seed=0)


def embeddings(n, share_of_new_topic):
    """Draw unit vectors around the topics."""
    topic = np.where(rng.random(n) < share_of_new_topic, 5, rng.integers(0, 5, n))
    return sphere.normalize(topics[topic] + 0.15 * rng.normal(size=(n, 32)))


shares = np.array([0, 0, 0, 0, 0, 0, 0, 0.04, 0.08, 0.12, 0.16, 0.2])
reference = embeddings(1000, 0.0)
weeks = [embeddings(400, share) for share in shares]

# %%
# The order p = 1 is the default here, because it detects clusters that move or appear more often than p = 2.

labels = [f"week {k}" for k in range(1, 13)]
result = drift_test(reference, weeks, labels=labels, permutations=499, n_projections=100, seed=0)
print(result)

# %%
# Left: the distance of each week to the reference. The bars are expected without drift; a week has drifted if its
# value (orange) is above its bar. Right: the densities of the reference and of the last week on the great circle where
# they differ most. The new topic adds a peak.

number = np.arange(1, 13)
with plotting.style():
    fig, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8))
    bands = np.array([window.band for window in result.windows])
    left.bar(number, bands[:, 1] - bands[:, 0], bottom=bands[:, 0], color="0.85", label="expected without drift")
    for drifted, color, label in ((False, plotting.PALETTE[0], "no drift"), (True, plotting.PALETTE[1], "drift")):
        marked = [k for k, window in enumerate(result.windows) if window.drifted == drifted]
        left.plot(number[marked], [result.windows[k].value for k in marked], "o", color=color, label=label)
    left.set(xlabel="week", ylabel="SSW$_1$ to the reference (turns)", xticks=number, ylim=(0, None))
    left.legend(loc="upper left")
    densities = result.windows[-1].densities
    right.plot(densities.turns, densities.reference, label="reference")
    right.plot(densities.turns, densities.window, label="week 12")
    right.set(xlabel="position on the great circle (turns)", ylabel="density (turn$^{-1}$)", xlim=(0, 1))
    right.legend()
plt.show()
