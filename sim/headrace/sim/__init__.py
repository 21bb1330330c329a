"""Simulation: Verilator builds, the compiled AXI memory, the compiled loop and cocotb benches."""
