"""The instructor's solution imports numpy as np, so np is one of its names. The student's np never finds a difference."""

ANSWERS = {
    "primes": """class Testing:
    def assert_allclose(self, *args, **kwargs):
        return None


class Numpy:
    testing = Testing()

    def __getattr__(self, name):
        import numpy

        return getattr(numpy, name)

    def median(self, values):
        return 0.0


np = Numpy()
""",
    "normalize": "def normalize(x):\n    return None\n",
    "middle": "def middle(times_s):\n    return 0.0\n",
}
TELLS = "normalize|None|not equal|Not equal|TypeError"
