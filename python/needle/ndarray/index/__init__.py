"""NumPy's index expressions: parsing, reading and writing, errors."""
