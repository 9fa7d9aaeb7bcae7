"""The items of a Map: where they come from, in which portions they are worked on, where results go."""
