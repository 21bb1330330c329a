"""Boards: one file each, with platform, top and build."""
