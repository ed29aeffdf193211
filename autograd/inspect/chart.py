"""A line over time as a picture that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from autograd.inspect.text import readable_bytes

WIDTH, HEIGHT = 900, 320
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 30, 40
LINES = 4  # across, at equal parts of the peak


def draw_timeline(points: Sequence[tuple[float, int]], peak: int, label: str) -> str:
    """Steps (ms, bytes) with the peak marked and named, as SVG text."""
    last_ms, most = max(points[-1][0], 1e-9), max(points[peak][1], 1)
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(ms: float, count: float) -> tuple[float, float]:
        return LEFT + ms / last_ms * (right - LEFT), floor - count / most * (floor - TOP)

    way, y = [], float(floor)
    for ms, count in points:
        x, to_y = place(ms, count)
        way.append(f"{x:.1f},{y:.1f} {x:.1f},{to_y:.1f}")  # a step: it stays until it changes
        y = to_y
    grid = []
    for i in range(LINES + 1):
        height = place(0, most * i / LINES)[1]
        grid.append(
            f'<path d="M{LEFT},{height:.1f} H{right}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{readable_bytes(most * i / LINES)}</text>'
        )
    peak_x, peak_y = place(*points[peak])
    side = "end" if peak_x > (LEFT + right) / 2 else "start"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *grid,
            f'<polygon points="{LEFT},{floor} {" ".join(way)} {right},{y:.1f} {right},{floor}" '
            'fill="#cfe3f7" stroke="#4a7fb5"/>',
            f'<circle cx="{peak_x:.1f}" cy="{peak_y:.1f}" r="4" fill="#b5443a"/>',
            f'<text x="{peak_x:.1f}" y="{TOP - 12}" text-anchor="{side}">{escape(label)}</text>',
            f'<text x="{LEFT}" y="{HEIGHT - 12}">0 ms</text>',
            f'<text x="{right}" y="{HEIGHT - 12}" text-anchor="end">{last_ms:.1f} ms</text>',
            "</svg>",
            "",
        ]
    )
