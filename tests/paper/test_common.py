"""Curves along a training that resumes."""

from paper.common import Curve, choose_epochs


def test_a_curve_is_measured_at_its_own_epochs_and_saved_with_the_state():
    class Store:
        state = None

        def load(self):
            return self.state

        def save(self, state):
            self.state = state()

    store, stops = Store(), choose_epochs(epochs=10, points=4)
    curve = Curve(store, "epochs", "losses")
    assert curve.load() is None
    for epoch in sorted(stops)[:2]:
        curve.add(epochs=epoch, losses=10.0 - epoch)
    curve.save(lambda: "training")
    resumed = Curve(store, "epochs", "losses")
    assert resumed.load() == "training"
    for epoch in sorted(stops)[2:]:
        resumed.add(epochs=epoch, losses=10.0 - epoch)
    assert resumed.values == {"epochs": [2, 5, 8, 10], "losses": [8.0, 5.0, 2.0, 0.0]}
