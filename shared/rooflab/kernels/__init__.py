"""Kernels at the roofline, worth reading and worth using."""
