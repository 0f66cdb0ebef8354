"""Ways to reach a host, and the agent's client side."""
