"""Grading that is fast, safe and cannot be talked into a grade."""
