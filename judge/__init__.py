"""How right is told from wrong."""
