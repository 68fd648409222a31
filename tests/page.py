#!/usr/bin/env python3
"""The page in headless Chromium, and /metrics through promtool.

    tests/page.py --mayfly target/release/mayfly --promtool promtool
    tests/page.py --mayfly target/release/mayfly --pictures docs     screenshots, with a load of two minutes

Starts a server of its own and a browser of its own on free ports, and stops both. The browser is driven by its
DevTools protocol. Exit code 0 if everything holds.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import aiohttp
import redis

WAIT_SECONDS = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A Mayfly with a port for the page."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.port, self.page_port = free_port(), free_port()
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [self.binary, "--port", str(self.port), "--metrics-port", str(self.page_port), "--save", "",
             "--dir", self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = redis.Redis(port=self.port)
        wait(lambda: answers(client), "the server")
        return client

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process = None


def answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def wait(condition, what):
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"waited for {what}")


class Browser:
    """A tab of headless Chromium."""

    def __init__(self, session, stream):
        self.session, self.stream = session, stream
        self.number, self.replies, self.errors = 0, {}, []
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        async for message in self.stream:
            message = json.loads(message.data)
            if "id" in message:
                self.replies.pop(message["id"]).set_result(message)
                continue
            params = message.get("params", {})
            if message["method"] == "Runtime.exceptionThrown":
                self.errors.append(params["exceptionDetails"].get("text", "an exception"))
            if message["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                self.errors.append(str(params["args"]))
            if message["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"])

    async def call(self, method, **params):
        self.number += 1
        reply = self.replies[self.number] = asyncio.get_running_loop().create_future()
        await self.stream.send_str(json.dumps({"id": self.number, "method": method, "params": params}))
        message = await asyncio.wait_for(reply, WAIT_SECONDS)
        assert "error" not in message, message
        return message["result"]

    async def value(self, expression):
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def wait(self, expression, what):
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            if await self.value(expression):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"waited for {what}: {await self.value('document.body.innerText')}")

    async def look(self, width, height, scheme, scale=1):
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                        mobile=False)
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code,
                            **text)


@contextlib.asynccontextmanager
async def browser(folder):
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert binary, "chromium is needed (tests/all.sh installs it)"
    args = [binary, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-dev-shm-usage", "--remote-debugging-port=0",
            "--remote-allow-origins=*", f"--user-data-dir={folder}"]
    if os.geteuid() == 0:
        args.append("--no-sandbox")
    process = subprocess.Popen([*args, "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        told = Path(folder) / "DevToolsActivePort"
        wait(lambda: told.exists() and told.read_text().count("\n") >= 1, "the browser")
        port = told.read_text().split("\n")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = await answer.json()
            address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(address, max_msg_size=0) as stream:
                tab = Browser(session, stream)
                for domain in ("Page", "Runtime", "Log"):
                    await tab.call(f"{domain}.enable")
                yield tab
                tab.reader.cancel()
    finally:
        process.terminate()
        process.wait()


def number(name):
    return f"Number(document.getElementById('{name}')?.dataset.value)"


async def values_are_those_of_info(tab, client):
    with client.pipeline() as batch:
        for n in range(1000):
            batch.set(f"session:{n}", "x" * 50, px=20_000 + n * 100)
        for n in range(234):
            batch.set(f"stays:{n}", n)
        batch.execute()
    await tab.wait(f"{number('keys')} === 1234", "the keys")
    info = client.info("everything")
    assert await tab.value(number("clients")) == info["connected_clients"]
    assert await tab.value("document.getElementById('keys').textContent") == "1,234"
    assert await tab.value("document.getElementById('keys-note').textContent") == "81.0 % expire"
    # The page is a second behind at most, in which ten keys more come within the minute.
    shown = await tab.value(number("due-minute"))
    within = client.info("expiry")["keys_due_within_1min"]
    assert within - 25 <= shown <= within, (shown, within)
    assert await tab.value(number("due-hour")) == 1000
    await tab.wait("document.querySelector('#bars-hour rect:not(.base)').getAttribute('height') > 100", "bars")
    await tab.wait("document.getElementById('state').textContent === 'live'", "the state")
    # A single one may be removed in the very millisecond that it is due.
    for n in range(16):
        client.set(f"short:{n}", 1, px=50 + n)
    await tab.wait(f"{number('lag-max')} > 0", "the lag")
    assert await tab.value(number("lag-bound")) == 0.01


async def names_are_shown_as_text_if_they_may(tab, client):
    nasty = "<img src=x onerror=document.title='broken'>"
    client.set(nasty, 1, ex=15)
    assert await tab.value("document.getElementById('next').hidden")
    client.config_set("metrics-show-keys", "yes")
    await tab.wait("!document.getElementById('next').hidden", "the names")
    names = await tab.value("[...document.querySelectorAll('#next-rows code')].map(e => e.textContent)")
    assert names[0] == nasty and "session:0" in names, names
    assert await tab.value("document.querySelectorAll('img').length") == 0
    assert await tab.value("document.title") == "Mayfly"
    client.config_set("metrics-show-keys", "no")
    await tab.wait("document.getElementById('next').hidden", "no names")


LUMINANCE = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (text) => { const [r, g, b] = parts(text).map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'rgb(255, 255, 255)'; };
  const texts = [...document.querySelectorAll('h1, h2, p, dt, dd, b, span, li, summary, a, button, td, th')]
    .filter(e => e.checkVisibility() && e.textContent.trim() !== '' && !e.classList.contains('key'));
  return { ground: light(getComputedStyle(document.body).backgroundColor),
    worst: Math.min(...texts.map(e => contrast(getComputedStyle(e).color, ground(e)))), count: texts.length };
})()"""


async def both_schemes_can_be_read(tab):
    grounds = []
    for scheme in ("light", "dark"):
        await tab.look(1200, 900, scheme)
        seen = await tab.value(LUMINANCE)
        assert seen["count"] > 30 and seen["worst"] >= 4.5, (scheme, seen)
        grounds.append(seen["ground"])
    assert grounds[0] > 0.7 and grounds[1] < 0.1, grounds


async def narrow_screens_need_no_scrolling_sideways(tab):
    for width in (320, 360, 480, 768, 1200):
        await tab.look(width, 800, "light")
        await tab.value("document.getElementById('figures').open = true")
        wide = await tab.value("document.documentElement.scrollWidth")
        assert wide <= width, (width, wide)
        cut = await tab.value("[...document.querySelectorAll('.card, .card *')].filter(e => e.checkVisibility() && "
                              "e.getBoundingClientRect().right > innerWidth + 1).length")
        assert cut == 0, (width, cut)
    await tab.value("document.getElementById('figures').open = false")


async def the_keyboard_reaches_everything(tab, server):
    await tab.look(1200, 900, "light")
    await tab.call("Page.navigate", url=f"http://localhost:{server.page_port}/")
    await tab.wait("document.getElementById('state')?.textContent === 'live'", "the page")
    order = []
    for _ in range(4):
        await tab.key("Tab", 9)
        order.append(await tab.value("document.activeElement.id || document.activeElement.textContent"))
        outline = await tab.value("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", (order, outline)
    assert order == ["pause", "All of this as a table", "metrics", "stats.json"], order
    await tab.value("document.querySelector('summary').focus()")
    await tab.key("Enter", 13)
    await tab.wait("document.getElementById('figures').open && document.querySelectorAll('#rows tr').length > 50",
                   "the table")
    texts = "[...document.querySelectorAll('#rows tr')].map(row => [...row.children].map(cell => cell.textContent))"
    cells = dict(await tab.value(texts))
    # Some have expired since they were counted.
    assert 1000 < int(cells["keys"].replace(",", "")) <= 1236, cells
    await tab.value("document.getElementById('pause').focus()")
    await tab.key("Enter", 13)
    await tab.wait("document.getElementById('state').textContent === 'paused'", "the pause")
    assert await tab.value("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    await tab.key("Enter", 13)
    await tab.wait("document.getElementById('state').textContent === 'live'", "the end of the pause")
    names = await tab.value("[...document.querySelectorAll('svg[role=img]')].map(e => e.getAttribute('aria-label'))")
    assert len(names) == 8 and all(names), names


async def it_tells_when_the_server_is_gone(tab, server):
    assert tab.errors == [], tab.errors
    server.stop()
    await tab.wait("document.body.className === 'is-gone'", "the server's end")
    text = await tab.value("document.getElementById('notice').textContent")
    assert text.startswith("The server has not answered since "), text
    server.start()
    await tab.wait("document.body.className === 'is-live'", "the server again")
    await tab.wait("document.getElementById('notice').hidden", "no notice")


def promtool_has_nothing_to_say(promtool, server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.page_port}/metrics") as answer:
        text = answer.read()
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    said = (checked.stdout + checked.stderr).decode()
    assert checked.returncode == 0 and not said, said


async def check(args, folder):
    server = Server(args.mayfly, folder)
    client = server.start()
    try:
        async with browser(tempfile.mkdtemp(dir=folder)) as tab:
            await tab.look(1200, 900, "light")
            await tab.call("Page.navigate", url=f"http://localhost:{server.page_port}/")
            await values_are_those_of_info(tab, client)
            if args.promtool:
                promtool_has_nothing_to_say(args.promtool, server)
            await names_are_shown_as_text_if_they_may(tab, client)
            await both_schemes_can_be_read(tab)
            await narrow_screens_need_no_scrolling_sideways(tab)
            await the_keyboard_reaches_everything(tab, server)
            await it_tells_when_the_server_is_gone(tab, server)
    finally:
        server.stop()
    print("the page is as it should be")


def fill(client, keys):
    """Keys as a shop may have them: sessions, carts, codes, a cache, and some that stay."""
    rng = random.Random(5)
    kinds = [("session", 28_800, 90), ("cart", 43_200, 220), ("code", 120, 12), ("cache", 3_600, 400),
             ("token", 86_400, 60), ("presence", 60, 8)]
    weights = [30, 16, 1, 22, 30, 1]
    for start in range(0, keys, 5_000):
        with client.pipeline(transaction=False) as batch:
            for n in range(start, min(start + 5_000, keys)):
                name, ttl, size = rng.choices(kinds, weights)[0]
                if n % 9 == 0:
                    batch.set(f"user:{n}", "u" * 150)
                else:
                    ttl_ms = int(rng.random() ** 0.9 * ttl * 1000) + 1
                    batch.set(f"{name}:{n}", "v" * rng.randint(size // 2, size), px=ttl_ms)
            batch.execute()


async def load(client, seconds, keys):
    """Reads and writes, some thousand a second, in waves."""
    rng, until, n = random.Random(6), time.monotonic() + seconds, keys
    while time.monotonic() < until:
        began = time.monotonic()
        wave = 1 + 0.5 * ((began % 37) / 37) + (0.8 if began % 53 < 9 else 0)
        with client.pipeline(transaction=False) as batch:
            for _ in range(int(260 * wave)):
                batch.get(f"user:{rng.randrange(keys // 9 + 6000) * 9}")
            for _ in range(int(60 * wave)):
                n += 1
                batch.set(f"code:{n}", "123456", px=rng.randint(500, 60_000))
            for _ in range(3):
                batch.get(f"code:{rng.randint(n - 4000, n)}")
            await asyncio.to_thread(batch.execute)
        await asyncio.sleep(max(0, 0.05 - (time.monotonic() - began)))


async def pictures(args, folder):
    server = Server(args.mayfly, folder)
    client = server.start()
    try:
        async with browser(tempfile.mkdtemp(dir=folder)) as tab:
            fill(client, args.keys)
            client.config_set("maxmemory", "256mb")
            client.bgsave()
            clients = [redis.Redis(port=server.port) for _ in range(23)]
            [other.ping() for other in clients]
            await tab.look(1120, 900, "light")
            await tab.call("Page.navigate", url=f"http://localhost:{server.page_port}/")
            await load(client, args.seconds, args.keys)
            for scheme in ("light", "dark"):
                await tab.look(1120, 900, scheme)
                await load(client, 1.5, args.keys)
                await picture(tab, Path(args.pictures) / f"page-{scheme}.png", 1120)
            await tab.look(360, 800, "light", 2)
            await load(client, 1.5, args.keys)
            await picture(tab, Path(folder) / "narrow.png", 360)
            if args.narrow:
                shutil.copy(Path(folder) / "narrow.png", args.narrow)
    finally:
        server.stop()


async def picture(tab, path, width):
    height = await tab.value("Math.ceil(document.querySelector('.page').getBoundingClientRect().height)")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = await tab.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    path.write_bytes(base64.b64decode(shot["data"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mayfly", required=True)
    parser.add_argument("--promtool")
    parser.add_argument("--pictures", metavar="FOLDER")
    parser.add_argument("--narrow", metavar="FILE", help="with --pictures: one of a narrow screen, too")
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=125)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="mayfly-page-")
    try:
        asyncio.run(pictures(args, folder) if args.pictures else check(args, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
