"""Programs and scripts of development."""
