"""A profile in the formats of other tools, one file a format. Pure: `Exported` in, text out."""
