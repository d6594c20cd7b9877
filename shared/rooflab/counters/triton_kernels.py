from contextlib import contextmanager


class KernelTracer:
    def __init__(self, c):
        pass

    @contextmanager
    def active(self):
        yield

    def counted(self, r):
        return None
