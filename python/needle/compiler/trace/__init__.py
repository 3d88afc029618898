"""A function becomes a graph: arrays that record, and the state that it reads and writes."""
