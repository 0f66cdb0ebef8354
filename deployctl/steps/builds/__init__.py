"""How an environment is named and made."""
