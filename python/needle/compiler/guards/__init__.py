"""What must be as it was when a function was traced, for its program to be used again."""
