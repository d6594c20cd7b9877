"""What does the measurement look like? The book's figures, in one house style.

The title states the message, axes carry units, bounds are dashed and drawn first, the reader's device is in colour and
the recorded one grey, and every figure has an alternative text made from its data.

>>> from rooflab import plots
>>> sorted(plots.__all__)[:3]
['bands', 'bars', 'curves']
"""

from .bands import bands
from .charts import curves
from .histogram import distribution
from .roof import roofline
from .rows import bars, intervals
from .style import figure, house_style

__all__ = ["bands", "bars", "curves", "distribution", "figure", "house_style", "intervals", "roofline"]
