"""Requests to a served model, and the judgement of answers."""
