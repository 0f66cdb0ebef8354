"""Renderers of one document: terminal, page, textfile, notifications."""
