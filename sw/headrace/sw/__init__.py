"""The host side: checkpoints, quantiser, compiler, golden machine, driver and command line."""
