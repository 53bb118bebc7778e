"""Where the points of the report's two drawings lie; how they look is for the page that shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bisect_bot.reports.drift import Drift
from bisect_bot.reports.values import number

WIDTH, HEIGHT = 640.0, 180.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 12.0, 12.0, 24.0
_FLOOR = 1e-9  # a logarithmic scale has no zero: smaller errors are drawn here
MOST_CHANNELS = 256


@dataclass(frozen=True, slots=True)
class Point:
    """One pass: its place in the drawing, and whether it was right."""

    x: float
    y: float
    matches: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """Errors by pass on a logarithmic scale. `ticks` are heights with their labels, `series` one line a revision."""

    ticks: tuple[tuple[float, str], ...]
    series: tuple[tuple[Point, ...], ...]
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One channel's error in parts of the largest, with what to say of it."""

    height: float
    label: str


def drift_chart(found: Drift) -> Chart | None:
    """The drawing of `found`; None with fewer than three passes, or without any error to draw."""
    errors = [p.error for _, line in found.lines for p in line if p and p.error is not None and math.isfinite(p.error)]
    if len(found.lines) < 3 or not errors:
        return None
    low = math.floor(math.log10(max(_FLOOR, min(errors))))
    high = max(low + 1, math.ceil(math.log10(max(_FLOOR, *errors))))

    def height(error: float) -> float:
        share = (math.log10(max(_FLOOR, error)) - low) / (high - low)
        return round(_TOP + (1 - share) * (HEIGHT - _TOP - _BOTTOM), 1)

    step = (WIDTH - _LEFT - _RIGHT) / (len(found.lines) - 1)
    series = tuple(
        tuple(
            Point(round(_LEFT + i * step, 1), height(one.error), one.matches)
            for i, (_, line) in enumerate(found.lines)
            if (one := line[column]) and one.error is not None and math.isfinite(one.error)
        )
        for column in range(len(found.columns))
    )
    every = max(1, math.ceil((high - low) / 5))
    ticks = tuple((height(10.0**power), number(10.0**power, 3)) for power in range(high, low - 1, -every))
    return Chart(ticks, series, found.lines[0][0], found.lines[-1][0])


def channel_bars(channels: tuple[float, ...]) -> tuple[Bar, ...]:
    """A bar for each channel, at most `MOST_CHANNELS`; none where there is one channel, or no error at all."""
    largest = max((error for error in channels if math.isfinite(error)), default=0.0)
    if len(channels) < 2 or largest <= 0:
        return ()
    return tuple(
        Bar(round(error / largest, 4) if math.isfinite(error) else 1.0, f"channel {i}: {number(error, 3)}")
        for i, error in enumerate(channels[:MOST_CHANNELS])
    )
