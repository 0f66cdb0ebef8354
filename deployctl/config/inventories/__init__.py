"""Hosts from other tools' inventories: read, never written. One file a source."""
