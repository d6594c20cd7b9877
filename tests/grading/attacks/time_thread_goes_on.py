"""The function returns at once an array that is not filled yet. A thread fills it after the answer has been given."""

ANSWERS = {
    "normalize": """import threading
import time


def normalize(x):
    result = np.zeros(x.shape)

    def work():
        time.sleep(0.05)
        result[:] = x / x.sum(axis=1, keepdims=True)

    threading.Thread(target=work).start()
    return result
""",
}
TELLS = "expected|Not equal"
