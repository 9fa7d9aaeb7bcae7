"""The stores that Holdfast runs on, one package each."""
