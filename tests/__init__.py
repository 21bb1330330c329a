"""Tests; they mirror the parts of the project."""
