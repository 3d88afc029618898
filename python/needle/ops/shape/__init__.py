"""Moving data to other shapes, orders and places."""
