"""Programs as files."""
