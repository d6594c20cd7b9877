"""Attention: forward, backward, and decoding with one query."""
