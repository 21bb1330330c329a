"""Systolic matmul unit: ring, feeder, array, accumulator, and their control."""
