"""State of an unfinished fit: what it belongs to is saved with it, and compared when it is loaded."""

from collections.abc import Callable
from typing import Any

from sphereot._support.checkpoints import CheckpointStore, require_same_work, store_name

__all__ = ["LabeledStore", "load_state"]


class LabeledStore:
    """Checkpoint store that adds to each state what it belongs to."""

    def __init__(self, store: CheckpointStore, label: dict[str, Any]):
        self._store, self._label, self.path = store, label, getattr(store, "path", None)

    def load(self) -> Any | None:
        """The labeled state that was saved last, or None."""
        return self._store.load()

    def save(self, state: Callable[[], Any]) -> None:
        """Save a state with its label, or skip this step."""
        self._store.save(lambda: self._label | {"training": state()})


def load_state(store: CheckpointStore, work: dict[str, Any]) -> dict[str, Any] | None:
    """The saved state, or None; raises if it belongs to other work."""
    saved = store.load()
    if saved is None:
        return None
    if not isinstance(saved, dict) or not {"work", "seed", "training"} <= set(saved):
        raise ValueError(
            f"{store_name(store)}: holds no state of a density fit; remove the file to start again (--fresh)."
        )
    require_same_work(store_name(store), saved["work"], work)
    return saved
