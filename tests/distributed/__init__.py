"""Many ranks: collectives, training, faults."""
