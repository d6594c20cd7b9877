"""Answers are decorated, with functools.wraps and with arguments."""

ANSWERS = {
    "middle": """import functools


def refuses(exception):
    def decorate(function):
        @functools.wraps(function)
        def wrapped(values):
            if not values:
                raise exception(function.__name__)
            return function(values)

        return wrapped

    return decorate


@refuses(ValueError)
def middle(times_s):
    return float(np.median(times_s))
""",
}
