"""Logs of servers and builds: their lines, their failures, and the causes that are known."""
