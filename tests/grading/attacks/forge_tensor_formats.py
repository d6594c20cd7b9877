"""Tensors are of formats of which torch makes none from bytes: quantized ones, and names that are no format."""

ANSWERS = {
    "primes": """@SPEAK@
import gc

FORMATS = ["quint8", "bits8", "load", "float8_e8m0fnu", "complex32"]
guest = next(one for one in gc.get_objects() if type(one).__name__ == "_Guest")


def names(wanted):
    tree = [{"~": "tensor", "dtype": name, "shape": [1], "v": [0, 1]} for name in FORMATS]
    tell({"kind": "done"}, {"~": "dict", "v": [["PRIMES", tree], ["COUNT", 10]]}, b"A")


guest.names = names
""",
}
TELLS = "cannot be read|tensor"
