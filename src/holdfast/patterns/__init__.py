"""What an app offers one piece at a time, without workflows or actors: concepts of ``coordination``, bound to it."""
