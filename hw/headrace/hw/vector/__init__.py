"""The vector unit: everything of a pass that is not a matrix product or a softmax."""
