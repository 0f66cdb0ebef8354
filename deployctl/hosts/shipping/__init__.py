"""A folder of one host brought to others: at once from the controller, or from host to host."""
