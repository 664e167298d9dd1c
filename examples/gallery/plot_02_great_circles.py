"""
Great circles, turns and the cut
================================

SSW compares two samples on many great circles. On each of them, every point is projected onto the nearest point of the
great circle, and the optimal transport problem on the circle is solved exactly. This example shows one great circle:
the projection, the optimal matching, and the cut that gives it.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import circle, plotting, sphere

BLUE, ORANGE = plotting.PALETTE[:2]

# %%
# Two small samples, and one great circle. Its frame has shape (3, 2): two orthonormal vectors that span its plane.
# `project` gives the coordinate of every projected point in turns, from 0 to 1.

rng = np.random.default_rng(5)
x = sphere.normalize(rng.normal(size=(9, 3)) + [1.5, -1.1, 0.6])
y = sphere.normalize(rng.normal(size=(9, 3)) + [1.5, 1.1, 0.2])
first = sphere.normalize(np.array([0.0, 1.0, 0.05]))
second = sphere.normalize(sphere.to_tangent(first, np.array([-0.9, 0.0, 0.45])))
frame = np.stack([first, second], axis=1)
u, v = sphereot.project(x, frame[None])[0], sphereot.project(y, frame[None])[0]
print("turns of x:", np.sort(u).round(3))

# %%
# On a line, the optimal plan matches points in sorted order. On a circle there is no first point, so one more number
# is needed: the cut, by which one sorted sequence is shifted against the other. The cost is a convex function of the
# cut, and `transport_plan` finds its exact minimum: a search that ends after a few steps, without a tolerance. SSW_2^2
# is the mean of this minimum over great circles.

plan = circle.transport_plan(u, v)
print(f"cost W_2^2 = {float(plan.cost):.5f} turns^2 at the cut {float(plan.cut):.3f}")
repeated = np.concatenate([np.sort(v) - 1, np.sort(v), np.sort(v) + 1])  # points beyond one turn, on both sides
shifts = np.arange(-9, 10)
costs = [np.mean((np.sort(u) - repeated[9 + shift : 18 + shift]) ** 2) for shift in shifts]

# %%
# Left: every point goes to the nearest point of the great circle (black). Middle: the circle seen from above, and the
# optimal matching of the projected points. Right: the cost of every matching that keeps the order
# of the points, by its offset (the cut). The orange point is the optimal cut, as found by `transport_plan`.


def on_circle(turns, radius=1.0):
    """Points of the plane at the given turns."""
    return np.stack([radius * np.cos(2 * np.pi * turns), radius * np.sin(2 * np.pi * turns)], axis=-1)


steps = np.linspace(0, 1, 200)

with plotting.style():
    fig = plt.figure(figsize=(7.2, 2.7))
    ax = plotting.sphere_axes(fig.add_subplot(1, 3, 1, projection="3d"), elev=25, azim=20)
    ax.plot(*(on_circle(steps) @ frame.T).T, color="black", lw=1.2, zorder=3)
    for points, turns, color, label in ((x, u, BLUE, "x"), (y, v, ORANGE, "y")):
        for start, end in zip(points, on_circle(turns) @ frame.T, strict=True):
            ax.plot(*sphere.normalize(np.linspace(start, end, 30)).T, color=color, lw=0.8, zorder=4)
        plotting.scatter_sphere(points, ax=ax, color=color, size=18, label=label)
    ax.set_title("1. project onto a great circle")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    ax = fig.add_subplot(1, 3, 2, aspect="equal")
    ax.plot(*on_circle(steps).T, color="black", lw=1.2)
    ax.plot(*on_circle(steps, 0.8).T, color="0.8", lw=0.8)
    for source, target in zip(plan.source, plan.target, strict=True):
        way = (v[target] - u[source] + 0.5) % 1 - 0.5  # the shorter of both ways round
        ax.plot(*on_circle(u[source] + way * steps, 1 - 0.2 * steps).T, color="0.5", lw=0.8)
    ax.scatter(*on_circle(u).T, color=BLUE, s=18, zorder=3)
    ax.scatter(*on_circle(v, 0.8).T, color=ORANGE, s=18, zorder=3)
    for turn, name in ((0, "0 turns"), (0.25, "1/4"), (0.5, "1/2"), (0.75, "3/4")):
        ax.text(*on_circle(turn, 0.55), name, ha="center", va="center", fontsize=7)
    ax.set_title("2. match at minimal cost")
    ax.set_axis_off()
    ax = fig.add_subplot(1, 3, 3)
    ax.plot(shifts / 9, costs)
    ax.plot(plan.cut, plan.cost, "o", color=ORANGE)
    ax.set(
        xlabel="offset of the matching (share of the points)",
        ylabel="cost (turns$^2$)",
        title="3. keep the minimal cost",
    )
plt.show()
