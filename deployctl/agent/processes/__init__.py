"""Processes by identity: looked at, held, ended."""
