"""Fails while it is imported."""
import numpy

raise RuntimeError("at import")
