"""Nearest neighbours in both directions: exact by tiles, by clusters, or through FAISS indexes;
cosines always recomputed."""
