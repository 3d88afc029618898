"""Reading, writing and sorting elements."""
