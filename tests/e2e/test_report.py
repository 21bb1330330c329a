"""`headrace run --trace` and `--report`: held against the counters, and shown in a browser."""

import gzip
import html
import json
import os
import re
import shutil
import subprocess
from collections import Counter

import pytest

from headrace.hw.activity import STATES, TRACKS
from headrace.hw.config import CLASSES, PRESETS
from headrace.sw.cli import main
from headrace.sw.trace import BETWEEN, OPERATIONS


#: Names of the browser.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

#: Nothing may be fetched: what would be is a message on the console.
NO_NETWORK = ('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
              'style-src \'unsafe-inline\'; script-src \'unsafe-inline\'; img-src data:">')

#: Writes what the layout came to into an attribute of the page, or of the one that frames it.
MEASURE = """<script>
const page = document.documentElement;
const over = [...document.querySelectorAll("body *")].filter(each =>
  !each.closest(".scroll") && each.getBoundingClientRect().right > innerWidth + 0.5);
parent.document.documentElement.dataset.layout = JSON.stringify({
  inner: innerWidth, wide: page.scrollWidth,
  over: over.map(each => each.tagName + "." + each.className)});
</script>"""


def _run(folder, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(["run", "demo", "--prompt-ids", "1,454,455", *arguments, "-q"])
    assert caught.value.code == 0


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Figures, trace and page of a run."""
    folder = tmp_path_factory.mktemp("report")
    paths = [folder / name for name in ("run.json", "run.trace.json.gz", "run.html")]
    _run(folder, "--tokens", "3", "--check", "--json", str(paths[0]), "--trace", str(paths[1]),
         "--report", str(paths[2]))
    return (json.loads(paths[0].read_text()), json.loads(gzip.decompress(paths[1].read_bytes())),
            paths[2])


def test_trace_sums_are_the_counters(files):
    report, trace, _ = files
    totals, sums = report["totals"], {}
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            sums.setdefault(event["name"], Counter()).update(event["args"])
    cycles = totals["cycles"]
    assert report["check"] == "bit-exact" and trace["otherData"]["cycles"] == cycles
    for engine, states in STATES.items():
        assert sums[f"{engine}: cycles"].total() == cycles
        for state in states:
            name, count = f"{engine}_{state}", sums[f"{engine}: cycles"][state]
            assert count == totals["stalls"].get(name, count), name
        if engine in totals["busy"]:
            assert sums[f"{engine}: cycles"]["busy"] == totals["busy"][engine]
    assert sums["bytes read"] == totals["bytes_read"]
    assert sums["bytes written"] == {name: totals["bytes_written"][name]
                                     for name in ("kv", "activations")}
    assert sums["bytes of cache read"] == {"from SRAM": totals["kv_hits"],
                                           "from memory": totals["kv_misses"]}
    assert sums["MACs"]["MACs"] == sum(each["macs_counted"] for each in report["passes"])


def test_trace_events(files):
    report, trace, _ = files
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    passes = [event for event in slices if event["tid"] == 0]
    # A cycle is a nanosecond, and times are microseconds.
    assert [round(1000 * event["dur"]) for event in passes] == [
        each["cycles"] for each in report["passes"]]
    assert [event["name"] for event in passes] == ["prefill 0 to 2", "decode 3", "decode 4"]
    for event in slices:
        if event["tid"]:
            assert round(1000 * event["ts"]) == event["args"]["begin_cycle"]
            assert round(1000 * event["dur"]) == event["args"]["cycles"] > 0
    assert Counter(event["cat"] for event in slices).keys() == {"pass", *TRACKS}
    product = [event for event in slices if event["name"] == "MATMUL layers.2.gate_up"
               and event["cat"] == "matmul"]
    assert [(event["args"]["kind"], event["args"]["layer"], event["args"]["operation"],
             event["args"]["position"]) for event in product] == [
        ("prefill", 2, "gate/up", 0), ("decode", 2, "gate/up", 3), ("decode", 2, "gate/up", 4)]
    names = [event["args"]["name"] for event in trace["traceEvents"]
             if event["name"] == "thread_name"]
    assert len(names) == 1 + len(TRACKS) and {"passes", "matmul", "vector"} < set(names)


def test_figures_have_cycles(files):
    rows = files[0]["locality"]
    for name in ("layers", "operations"):
        assert sum(row["cycles"] for row in rows[name]) == files[0]["totals"]["cycles"]
    for row in rows["operations"]:
        assert row["operation"] == BETWEEN or 0 < row["macs_per_cycle"] <= 32


def _cells(page, table):
    """Texts of the cells of a table, by row."""
    body = re.search(rf'<table id="{table}">.*?</table>', page, re.DOTALL)
    assert body, table
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in
             re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
            for row in re.findall(r"<tr>(.*?)</tr>", body[0], re.DOTALL)]


def test_page_has_the_figures(files):
    report, _, path = files
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|//\w|@import|url\(|<script (?!type=\"application/json\")| src=",
                         page)
    figures = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)
    assert figures and json.loads(figures[1]) == report
    command = re.search(r'<pre id="command"><code>(.*?)</code>', page)
    assert command and html.unescape(command[1]) == report["command"]
    assert report["command"].startswith("headrace run demo --prompt-ids 1,454,455 --tokens 3")
    speed = f"{report['clock_hz'] / report['tpot_cycles']:,.2f}"
    assert f'<span id="tokens-per-second">{speed}</span><small>simulated' in page
    assert f'<dd id="ttft">{report["ttft_cycles"]:,}</dd>' in page
    operations = _cells(page, "operations")[1:]
    assert [row[:5] for row in operations] == [
        [row["kind"], row["operation"], f"{row['macs']:,}", f"{row['bytes']:,}",
         f"{row['cycles']:,}"] for row in report["locality"]["operations"]]
    layers = _cells(page, "layers")[1:]
    assert [[row[0], row[1], row[3], row[8]] for row in layers] == [
        [row["kind"], "rest" if row["layer"] is None else str(row["layer"]),
         f"{row['kv_from_sram']:,}", f"{row['cycles']:,}"]
        for row in report["locality"]["layers"]]
    lost = [row[:3] for row in _cells(page, "lost")[1:]]
    assert lost[0] == ["vector", "matmul", f"{report['totals']['stalls']['vector_wait_matmul']:,}"]
    assert len(lost) == sum(count > 0 for count in report["totals"]["stalls"].values())
    read = {row[0]: row[1] for row in _cells(page, "bytes")[1:]}
    assert {name: read.get(f"{name}, read", "0") for name in CLASSES} == {
        name: f"{size:,}" for name, size in report["totals"]["bytes_read"].items()}


@pytest.fixture(scope="module")
def browser():
    """Path of the browser."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser on PATH ({', '.join(BROWSERS)}): apt-get install chromium")
    return found


def _browse(browser, page, folder, *options):
    """Open a page; return its elements after loading, and the messages of the console."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}", "--hide-scrollbars",
         "--enable-logging=stderr", "--log-level=0", *options, path.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "HOME": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def _measured(page):
    return page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">{NO_NETWORK}').replace(
        "</body>", f"{MEASURE}</body>")


def _framed(page, width):
    """A page that shows `page` in a frame: windows are never narrower than 500 pixels."""
    return (f'<!DOCTYPE html><title>frame</title><iframe style="width: {width}px; height: 900px; '
            f'border: 0" srcdoc="{html.escape(page)}"></iframe>')


def _layout(dom):
    found = re.search(r'data-layout="(.*?)"', dom)
    assert found, dom[:500]
    return json.loads(html.unescape(found[1]))


def test_page_in_the_browser(files, browser, tmp_path):
    page = files[2].read_text(encoding="utf-8")
    dom, console = _browse(browser, _measured(page), tmp_path, "--window-size=1100,1000",
                           "--dump-dom")
    assert console == []
    assert _layout(dom) == {"inner": 1100, "wide": 1100, "over": []}
    for name in ("key-figures", "facts", "roofline", "operations", "bytes", "lost", "layers"):
        assert f'id="{name}"' in dom, name
    roofline = re.search(r'<svg [^>]*id="roofline".*?</svg>', dom, re.DOTALL)
    assert roofline
    # Of decode and of prefill, each operation of the model.
    assert roofline[0].count("<circle") == len(OPERATIONS) - 1
    assert roofline[0].count('<rect') == len(OPERATIONS) - 1
    assert dom.count('class="lanes timeline"') == 2 and dom.count("<svg") > 20
    # Pictures have names.
    assert all("aria-labelledby" in head or "aria-label" in head or "aria-hidden" in head
               for head in re.findall(r"<svg [^>]*>", dom))


def test_page_fits_narrow_screens(files, browser, tmp_path):
    page = _measured(files[2].read_text(encoding="utf-8"))
    dom, console = _browse(browser, _framed(page, 400), tmp_path, "--dump-dom")
    assert console == []
    assert _layout(dom) == {"inner": 400, "wide": 400, "over": []}


def test_page_has_a_picture(files, browser, tmp_path):
    picture = tmp_path / "page.png"
    _browse(browser, files[2].read_text(encoding="utf-8"), tmp_path, "--window-size=1100,3000",
            f"--screenshot={picture}")
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 50_000


def test_browser_would_tell(files, browser, tmp_path):
    """Faults that the test above looks for are found when they are there."""
    page = files[2].read_text(encoding="utf-8")
    bad = page.replace("</header>", '<img src="http://127.0.0.1:9/x.png" alt="">'
                       '<div style="width: 500px">wide</div></header>')
    assert bad != page
    dom, console = _browse(browser, _framed(_measured(bad), 400), tmp_path, "--dump-dom")
    assert any("Content Security Policy" in line for line in console)
    assert _layout(dom)["wide"] > 400 and _layout(dom)["over"]


@pytest.mark.parametrize("option", ["--trace", "--report"])
def test_refusals(option, tmp_path, capsys):
    for arguments, message in (
            (["--device", "golden", option, str(tmp_path / "file")],
             f"headrace: {option} shows cycles, which the golden machine does not have: use "
             f"--device sim"),
            ([option, str(tmp_path)], f"headrace: {option} {tmp_path}: is a folder: expected a "
                                      f"file to write")):
        with pytest.raises(SystemExit) as caught:
            main(["run", "demo", "--prompt-ids", "1", *arguments])
        assert caught.value.code == 2
        assert capsys.readouterr().err.strip() == message
    assert not list(tmp_path.iterdir())


def test_plain_trace_of_one_pass(tmp_path):
    path = tmp_path / "trace.json"
    _run(tmp_path, "--tokens", "1", "--trace", str(path), "--report", str(tmp_path / "page.html"))
    trace = json.loads(path.read_text())
    assert trace["displayTimeUnit"] == "ns"
    assert trace["otherData"]["clock_hz"] == PRESETS["tiny"].clk_hz
    page = (tmp_path / "page.html").read_text()
    assert page.count('class="lanes timeline"') == 1 and 'id="tokens-per-second"' not in page
