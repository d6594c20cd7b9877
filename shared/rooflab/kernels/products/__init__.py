"""Products of matrices: in 16 bits, and in 8 bits with scales.

>>> from rooflab import costs
>>> round(costs.matmul(4096, 4096, 1000, "bf16").intensity)        # FLOPs a byte; an H200 can do 206
656
"""

__all__ = []
