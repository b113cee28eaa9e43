"""Pointsman's public face: all that a plugin imports, the version, and nothing else."""

from app.extension import *  # noqa: F403 - the re-export is the purpose
from app.extension import __all__ as _names
from app.fleet.exposition import Exposition, Sample, mean, total

__version__ = "0.1.0"

__all__ = [*_names, "Exposition", "Sample", "__version__", "mean", "total"]  # noqa: PLE0604
