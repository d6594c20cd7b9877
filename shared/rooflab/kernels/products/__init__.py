"""Products of matrices: in 16 bits, and in 8 bits with scales."""
