"""The page of the docs: one run over all stores and peers, its figures, its charts and its words."""
