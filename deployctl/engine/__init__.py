"""A run: questions, plan, steps in order, the way back, and its record."""
