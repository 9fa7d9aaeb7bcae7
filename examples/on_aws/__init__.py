"""The checkout of ``holdfast demo`` and the six actor examples on AWS, as a stand-in has it on this machine.

``make demo-aws`` deploys them by the construct of CDK, works them, kills the environments of their function meanwhile,
doubles every message, and compares the books. What a user would write is in ``app.py``, ``checkout.py``, ``handler.py``
and ``stack.py``; the rest is the stage.
"""
