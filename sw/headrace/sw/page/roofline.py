"""Roofline: operations between the ceiling of the memory port and that of the array."""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from headrace.hw.config import Config

from .svg import CLASS_OF, element


__all__ = ["roofline"]


WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 14, 36


class _Axes:
    """Logarithmic axes: powers of two that hold all points and the corner of the roof."""

    def __init__(self, points: Sequence[tuple[float, float]], corner: tuple[float, float]):
        xs = [x for x, _ in [*points, corner]]
        ys = [y for _, y in [*points, corner]]
        self.x_low, self.x_high = self._range(xs, 1)
        self.y_low, self.y_high = self._range(ys, 0)

    @staticmethod
    def _range(values: Sequence[float], beyond: int) -> tuple[int, int]:
        low, high = math.log2(min(values)), math.log2(max(values))
        return math.floor(low - 0.4), math.ceil(high + 0.4) + beyond

    def x(self, value: float) -> float:
        share = (math.log2(value) - self.x_low) / (self.x_high - self.x_low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (math.log2(value) - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _tick(power: int) -> str:
    return str(1 << power) if power >= 0 else f"1/{1 << -power}"


def _grid(axes: _Axes) -> Markup:
    parts = []
    x_step = max(1, (axes.x_high - axes.x_low) // 8)
    y_step = max(1, (axes.y_high - axes.y_low) // 7)
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for power in range(axes.x_low, axes.x_high + 1, x_step):
        at = axes.x(2.0 ** power)
        parts += [element("line", x1=at, x2=at, y1=TOP, y2=bottom, cls="grid"),
                  element("text", _tick(power), x=at, y=bottom + 13, text_anchor="middle",
                          cls="tick")]
    for power in range(axes.y_low, axes.y_high + 1, y_step):
        at = axes.y(2.0 ** power)
        parts += [element("line", x1=LEFT, x2=right, y1=at, y2=at, cls="grid"),
                  element("text", _tick(power), x=LEFT - 5, y=at + 3, text_anchor="end",
                          cls="tick")]
    parts += [element("text", "MACs per byte of memory", x=(LEFT + right) / 2, y=HEIGHT - 6,
                      text_anchor="middle", cls="axis"),
              element("text", "MACs per cycle", transform=f"translate(11 {(TOP + bottom) / 2:.0f}) "
                      f"rotate(-90)", text_anchor="middle", cls="axis")]
    return Markup("").join(parts)


def _roof(axes: _Axes, config: Config) -> Markup:
    peak, beat = config.rows * config.cols, config.port_bytes
    corner, begin = peak / beat, max(2.0 ** axes.x_low, 2.0 ** axes.y_low / beat)
    path = (f"M{axes.x(begin):.1f} {axes.y(begin * beat):.1f} L{axes.x(corner):.1f} "
            f"{axes.y(peak):.1f} L{WIDTH - RIGHT} {axes.y(peak):.1f}")
    # The slope on the picture, for the text along the line.
    rise = axes.y(beat * begin) - axes.y(peak)
    angle = -math.degrees(math.atan2(rise, axes.x(corner) - axes.x(begin)))
    middle = math.sqrt(begin * corner)
    along = (f"translate({axes.x(middle):.1f} {axes.y(middle * beat) - 6:.1f}) "
             f"rotate({angle:.1f})")
    return Markup("").join((
        element("path", d=path, cls="roof"),
        element("text", f"port: {beat} bytes per cycle", transform=along, text_anchor="middle",
                cls="ceiling"),
        element("text", f"array: {peak:,} MACs per cycle", x=WIDTH - RIGHT - 2,
                y=axes.y(peak) - 5, text_anchor="end", cls="ceiling"),
    ))


def _label(at: tuple[float, float], text: str, taken: list[tuple[float, float, float, float]]
           ) -> Markup:
    """Place a text beside a point, where no other text or point is; leave it out if there is no
    such place, as the table names every point."""
    x, y = at
    width = 5.2 * len(text)
    for anchor, dx, dy in (("start", 7, 3), ("end", -7, 3), ("middle", 0, 14), ("middle", 0, -8),
                           ("start", 6, 13), ("end", -6, 13), ("start", 6, -7), ("end", -6, -7),
                           ("middle", 0, 24), ("start", 7, 22), ("end", -7, 22)):
        left = x + dx - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        box = (left, y + dy - 8, left + width, y + dy + 2)
        if LEFT < box[0] and box[2] < WIDTH - RIGHT and box[3] < HEIGHT - BOTTOM and all(
                box[2] < other[0] or other[2] < box[0] or box[3] < other[1] or other[3] < box[1]
                for other in taken):
            taken.append(box)
            return element("text", text, x=x + dx, y=y + dy, text_anchor=anchor, cls="point")
    return Markup("")


def roofline(rows: Sequence[dict[str, Any]], config: Config) -> Markup:
    """The picture: a circle for each operation of decode, a square for each of prefill.

    Parameters
    ----------
    rows : sequence of dict
        ``locality.operations`` of the report, with cycles.
    config : Config
        The machine.
    """
    shown = [row for row in rows if row["macs"] and row["bytes"] and row["cycles"]]
    points = [(row["macs_per_byte"], row["macs_per_cycle"]) for row in shown]
    peak = config.rows * config.cols
    axes = _Axes(points, (peak / config.port_bytes, peak))
    parts = [_grid(axes), _roof(axes, config)]
    places = [(axes.x(x), axes.y(y)) for x, y in points]
    taken = [(x - 4.5, y - 4.5, x + 4.5, y + 4.5) for x, y in places]
    for row, (x, y) in zip(shown, places):
        about = element("title", f"{row['kind']}, {row['operation']}: "
                        f"{row['macs_per_byte']:.2f} MACs per byte, "
                        f"{row['macs_per_cycle']:.2f} MACs per cycle")
        cls = f"mark {CLASS_OF[row['operation']]}"
        if row["kind"] == "decode":
            parts.append(element("circle", about, cx=x, cy=y, r=4, cls=cls))
        else:
            parts.append(element("rect", about, x=x - 3.5, y=y - 3.5, width=7, height=7, cls=cls))
    parts += [_label(at, row["operation"], taken) for row, at in zip(shown, places)]
    title = element("title", "Roofline: multiplications per cycle of each operation over its "
                    "multiplications per byte, below the ceilings of memory port and array",
                    id="roofline-title")
    return element("svg", title + Markup("").join(parts), viewBox=f"0 0 {WIDTH} {HEIGHT}",
                   role="img", aria_labelledby="roofline-title", id="roofline")
