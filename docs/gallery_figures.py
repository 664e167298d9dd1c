"""Settings of the figures in the gallery, used by conf.py."""

import matplotlib as mpl

__all__ = ["set_defaults"]


def set_defaults(gallery_conf, script):
    """Set the resolution of figures, and cut their empty margins; called before each program of the gallery."""
    mpl.rcParams.update({"savefig.dpi": 105, "savefig.bbox": "tight", "savefig.pad_inches": 0.05})
