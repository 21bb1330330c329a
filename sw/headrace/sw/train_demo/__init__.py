"""Training of the built-in model ``demo``.

``python -m headrace.sw.train_demo CORPUS -o DIR`` needs the extra ``train`` (PyTorch). Only
:mod:`.llama` and :mod:`.training` import PyTorch, and nothing imports them before a run starts.
"""
