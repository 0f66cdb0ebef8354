"""Requests to a served model, and what is made of the answers."""
