"""Flow control: how many executions, steps and calls run at once, how often they begin, and whose turn it is."""
