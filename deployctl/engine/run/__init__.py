"""A run: plan, steps in order, rollback, and its record."""
