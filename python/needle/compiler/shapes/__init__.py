"""Programs for any size of an axis."""
