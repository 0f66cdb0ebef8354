"""A run: questions, plan, steps in order, rollback, and its record."""
