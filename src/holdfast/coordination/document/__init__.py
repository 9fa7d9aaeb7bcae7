"""Documents: typed values under a key, each write one version further (DESIGN idea 1).

``record`` says what the store holds, ``documents`` what is declared once, and reads and writes one document.
"""
