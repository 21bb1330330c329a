"""Cocotb benches, run from pytest on cached Verilator builds.

The build makes only the ports of the top visible to the bench: that is several times faster than
cocotb's own build, which keeps every signal of the design.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from headrace.sw.errors import HeadraceError

from .gating import gate
from .memory import MEMORY_SOURCES
from .ports import Port, read_ports
from .tops import TOP, wrap
from .verilator import CPP, Design, build


if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


__all__ = ["BenchFailed", "component_verilog", "run_bench", "run_component_bench",
           "run_device_bench"]


class BenchFailed(HeadraceError):
    """A bench failed, crashed, or held no test; the message names the tests and shows the log."""


def component_verilog(component: "Component", name: str) -> str:
    """Verilog of a component as module `name`, in the form that compiles and runs fastest."""
    from headrace.hw.emission import to_verilog

    text = to_verilog(component, name)
    # Verilator takes a port for the module itself where both have one name.
    if name in read_ports(text, name):
        raise HeadraceError(f"top {name!r} has a port of the same name: choose another name for "
                            f"the top")
    return text


def run_component_bench(component: "Component", module: str, *, name: str = "bench_top",
                        **options: Any) -> dict[str, float]:
    """Run a bench on one Amaranth component; see :func:`run_bench` for the rest."""
    text = component_verilog(component, name)
    ports = list(read_ports(text, name).values())
    return run_bench({"component.v": text}, ports, module, top=name, **options)


def run_device_bench(verilog: str, module: str, **options: Any) -> dict[str, float]:
    """Run a bench on a whole device with the compiled memory; see :func:`run_bench`.

    The top is the one of :class:`headrace.sim.simulation.Simulation`. The bench makes a
    :class:`headrace.sim.testbench.BenchSimulation` to drive it.
    """
    wrapper, ports = wrap(verilog)
    return run_bench({"device.v": gate(verilog), "top.sv": wrapper}, ports, module, top=TOP,
                     cpp=MEMORY_SOURCES, driver=CPP / "bench_main.cpp", **options)


def run_bench(sources: Mapping[str, str], ports: Sequence[Port], module: str, *, top: str,
              cpp: Sequence[str] = (), driver: Path | None = None,
              parameters: Mapping[str, Any] | None = None,
              tests: Sequence[str] | None = None, seed: int = 1, trace: bool = False,
              folder: Path | None = None) -> dict[str, float]:
    """Build `top` and run the cocotb tests of a Python module on it.

    Parameters
    ----------
    sources : mapping of str to str
        Verilog files, name to text.
    ports : sequence of Port
        Ports of `top`: what the bench can see.
    module : str
        Importable name of the Python module with the tests, for example ``"tests.hw.bench_dma"``.
    top : str
        Top module; no port may have that name.
    cpp : sequence of str
        C++ files of this package to compile with it.
    driver : pathlib.Path, optional
        The C++ main program, cocotb's by default.
    parameters : mapping, optional
        What the bench reads as :func:`headrace.sim.testbench.parameters`; JSON values.
    tests : sequence of str, optional
        Names of the tests to run, all by default.
    seed : int
        Seed of Python's random numbers in the bench.
    trace : bool
        Write ``dump.vcd`` into `folder`.
    folder : pathlib.Path, optional
        Where the bench runs and leaves its files; a temporary folder by default.

    Returns
    -------
    dict of str to float
        Tests that passed, with their seconds.

    Raises
    ------
    BenchFailed
        A test failed, the simulator crashed, or no test ran.
    """
    runner = _runner()
    program = _build(sources, ports, top, cpp, driver, trace)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as scratch:
        place = Path(folder or scratch)
        results, log = place / "results.xml", place / "bench.log"
        try:
            runner.test(
                test_module=module, hdl_toplevel=top, hdl_toplevel_lang="verilog", seed=seed,
                build_dir=program.parent, test_dir=place, results_xml=str(results), log_file=log,
                testcase=tests, waves=trace,
                extra_env={"HEADRACE_BENCH": json.dumps(dict(parameters or {})),
                           "COCOTB_ANSI_OUTPUT": "0"})
        except (RuntimeError, SystemExit):
            pass  # The results and the log say more, below.
        return _passed(results, log, module)


def _passed(results: Path, log: Path, module: str) -> dict[str, float]:
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:]) if log.exists() else ""
    if not results.exists():
        raise BenchFailed(f"bench {module} ended without results:\n{tail}")
    passed, failed = {}, []
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        name = case.get("name", "")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is None:
            passed[name] = float(case.get("time", 0))
    if failed:
        raise BenchFailed(f"bench {module} failed: {', '.join(failed)}\n{tail}")
    if not passed:
        raise BenchFailed(f"bench {module} ran no test\n{tail}")
    return passed


def _build(sources: Mapping[str, str], ports: Sequence[Port], top: str, cpp: Sequence[str],
           driver: Path | None, trace: bool) -> Path:
    import cocotb_tools.config

    visible = [f'public_flat_rw -module "{top}" -var "{port.name}"\n' for port in ports]
    libraries = cocotb_tools.config.libs_dir
    main = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
    return build(Design(
        top=top, sources={"ports.vlt": "`verilator_config\n" + "".join(visible), **sources},
        driver=driver or main, output=top, cpp=cpp, trace=trace, label=f"bench of {top}",
        verilator_flags=("--vpi", "--timescale", "1ns/1ps"),
        link_flags=(f"-Wl,-rpath,{libraries}", f"-L{libraries}", "-lcocotbvpi_verilator")))


def _runner():
    try:
        from cocotb_tools.runner import Verilator
    except ImportError as error:
        raise HeadraceError('benches need cocotb, which is not installed: pip install '
                            '"headrace[sim]"') from error

    class Runner(Verilator):
        """Cocotb's runner, for its tests only: the build is ours."""

        def _build_command(self):
            raise AssertionError("the build is not cocotb's")

    return Runner()
