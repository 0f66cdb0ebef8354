"""Unattended runs by cron."""
