"""A drafter's config.json: its dialects, its checks, and edits that keep the rest."""
