"""Where values are stored: liveness, buffer reuse, in-place updates."""
