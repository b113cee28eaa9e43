"""Pointsman's public API: everything that a plugin imports, and the version."""

from app.extension import *  # noqa: F403 - re-exported
from app.extension import __all__ as _names
from app.fleet.exposition import Exposition, Sample, mean, total

__version__ = "0.1.0"

__all__ = [*_names, "Exposition", "Sample", "__version__", "mean", "total"]  # noqa: PLE0604
