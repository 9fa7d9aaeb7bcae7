"""Documents: typed values under a key, each write one version further (DESIGN idea 1).

``record`` says what the store holds, ``handle`` reads and writes one document, ``collection`` holds what is declared
once.
"""
