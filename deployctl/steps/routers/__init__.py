"""Routers before the replicas of a profile: one file an engine."""
