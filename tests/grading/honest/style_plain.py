"""The lab as the instructor solves it."""
