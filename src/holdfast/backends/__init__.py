"""One folder per world that a home can be made of. Each implements the ports, and sees no other."""
