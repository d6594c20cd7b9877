# %% [markdown]
# # Rooflab
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({{ colab_url }})
# [![Open in Binder](https://mybinder.org/badge_logo.svg)]({{ binder_url }})
#
# How fast is a step of deep learning, and how fast could it be? In this book we answer that before we measure, on
# whatever device is here, and then we look at the difference.
#
# Every section goes the same way:
#
# 1. **Predict.** Commit a guess. It may be wrong; most first guesses are, and those teach the most.
# 2. **Measure.** Run the real kernel on this device.
# 3. **Explain.** See guess, model, measurement and a recorded data-centre GPU in one table, and find the gap's cause.

# %% tags=["hide-input"]
import sys

if "google.colab" in sys.modules:
    # %pip install -q "rooflab @ {{ install_url }}"
    print("Rooflab is installed.")

# %% [markdown]
# ## Your device
#
# Run a cell with Shift+Enter. This one finds the device that all units will measure on.

# %%
from rooflab.device import find_device
from rooflab.session import show_device

show_device(find_device())

# %% [markdown]
# ## The book and your progress
#
# Click a title to open it. The time below it is for reading, guessing and looking at each result; a first run
# compiles for a minute or two more. A lab's bar grows when the visible checks of an exercise pass here; run this cell
# again to see it.

# %%
from rooflab import book

book.show_map()

# %% [markdown]
# ## How to read a unit
#
# * Run the cells from top to bottom with Shift+Enter, one at a time; a cell needs those above it, also after the
#   kernel was restarted. Type your guess into each box *before* you run the cell below it, press Enter, and click the
#   next cell.
# * Change the sizes in the CAPITALS cell and run the unit again: most claims should survive, and those that do not
#   are worth a closer look.
# * Numbers in a unit come from this device, now. Grey points and *recorded* columns come from a reference device; the
#   legend says which one. A grey curve has the marks of your own curve of the same name.
# * Close other programs while you measure. When a measurement was disturbed, a line below its figure or table says
#   so.
# * Each series ends in labs. Fill the marked cells and run the checks. Before you hand one in, press *Validate* in
#   the toolbar. The button is there where nbgrader's extensions are: in what `make lab` opens, on Binder, in most
#   classes, but not in Colab. Without it, restart the kernel and run all cells; no visible check may fail.
#
# On a terminal (in a clone after `. .venv/bin/activate`), `rooflab device` shows the ceilings of this device, and
# `rooflab run s1/u1` runs a unit from top to bottom.
