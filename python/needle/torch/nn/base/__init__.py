"""What every layer is: modules, their tree, state and hooks."""
