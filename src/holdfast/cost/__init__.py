"""The cost of durable work on AWS: prices with their date, and formulas as small functions.

=====================  ==============================================================================================
``prices``             the price list, its date, and the page each price is from
``bill``               lines of item, count and price
``ours``               Holdfast on AWS, from metered or counted requests
``durable_functions``  AWS Lambda Durable Functions
``step_functions``     AWS Step Functions, standard and express
``roll_your_own``      a queue, a table and a bucket, with the user's own checkpoints
``tables``             two published tables of the last, computed again
``metering``           any home, with a meter of what AWS would have billed
``indexes``            the entries of the table's indexes that a run would write
``trial``              an app's own code, on a home in memory with such a meter
``elsewhere``          the same execution on the other services
=====================  ==============================================================================================

Nothing here talks to AWS. Amounts are exact decimals, so they can be compared to the cent.
"""
