"""Tests of the memory system."""
