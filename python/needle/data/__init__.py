"""Data: so far the one set that is small enough to ship."""

from .bundled import digits as digits
