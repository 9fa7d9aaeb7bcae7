"""Holdfast behind the interfaces of other libraries, for programs that use those already."""
