"""The agent's conversation and what every operation uses."""
