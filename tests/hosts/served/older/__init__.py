"""Hosts as an older deployctl left them: recorded by `make`, brought back to life by `revive`."""
