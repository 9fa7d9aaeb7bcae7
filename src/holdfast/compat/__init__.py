"""Holdfast behind the interfaces of other libraries, for programs that use these libraries already."""
