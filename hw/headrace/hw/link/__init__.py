"""Link between a host and the accelerator on a board, and the memory test, in Amaranth.

This package imports no Amaranth, and neither does :mod:`.map`: the host reads it as well.
"""
