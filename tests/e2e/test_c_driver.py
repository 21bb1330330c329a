"""The C driver on the simulated device: the built-in model, tokens of the golden device."""

from headrace.hw.regmap import COUNTERS
from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions
from headrace.sw.driver import Session
from headrace.sw.golden_device import GoldenDevice
from tests.sw.c_driver import Driver, build

from .machines import TINY, demo, verilog


PROMPT, TOKENS = "Once upon a time", 4


def test_generation_of_the_built_in_model(tmp_path):
    image = demo(TINY, 64)
    assert image.tokenizer is not None
    ids = image.tokenizer.encode(PROMPT)
    with GoldenDevice(TINY, memory_bytes=image.total_bytes) as device:
        session = Session(device, image, passes_per_run=TOKENS - 1)
        expected = list(session.generate(ids, TOKENS))
        bytes_read = session.statistics.passes[-1]["bytes_read"]["weights"]
    with SimDevice(TINY, verilog(TINY), MemoryOptions(latency=20), fill=0xff,
                   memory_bytes=image.total_bytes) as device:
        driver = Driver(build(tmp_path), device, wait=lambda: device.wait_interrupt(100_000),
                        polls=500)
        driver.ready(image)
        result, token = driver.prefill(ids)
        assert (result, token) == ("OK", expected[0])
        assert driver.decode(TOKENS - 1) == ("OK", expected[1:])
        counters = dict(zip(COUNTERS, driver.counters()))
        assert counters["cycles"] > 1000 and counters["read_weights"] >= 3 * bytes_read
    assert len(set(expected)) > 1
