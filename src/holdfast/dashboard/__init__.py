"""The dashboard: pages that show what an app's home holds, and forms that act on it. It needs the extra ``dashboard``.

Nothing here is loaded by ``import holdfast``. ``options`` needs no extra; ``site`` and all below it do.
"""
