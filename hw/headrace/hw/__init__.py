"""The accelerator, in Amaranth.

This package imports no Amaranth, and neither do :mod:`.config`, :mod:`.regmap` and :mod:`.isa`:
they are plain data that the host, the golden machine and the documents use as well.
"""
