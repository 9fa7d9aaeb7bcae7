"""The worlds Holdfast runs on, one package each."""
