"""Losses over large vocabularies without the logits in memory."""
