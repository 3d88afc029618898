"""Programs as C: kernels that replace tile programs, and whole programs as files."""
