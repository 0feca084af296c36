"""`fb view` in a real browser: Chromium, driven by Playwright."""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import servers

import femtobarn as fb

FB = [sys.executable, "-c", "from femtobarn._cli import main; import sys; sys.exit(main())"]


class Viewed:
    """A running `fb view`."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*FB, "view", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.url = self.process.stdout.readline().strip()
        self.base, _, parameters = self.url.partition("#")
        self.token = parameters.removeprefix("token=").partition("&")[0]
        self.host = self.base.removeprefix("http://").rstrip("/")

    def ask(self, path="api?of=listing", **headers):
        """Return status and document of a request."""
        request = urllib.request.Request(self.base + path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    @contextlib.contextmanager
    def send(self, line, headers=(), end="\r\n\r\n"):
        """Send a request by hand, and return its connection."""
        name, _, port = self.host.partition(":")
        with socket.create_connection((name, int(port)), timeout=60) as connection:
            connection.sendall("\r\n".join([line, f"Host: {self.host}", *headers]).encode() + end.encode())
            yield connection

    def answers(self):
        """Return whether the data can be had within seconds."""
        request = urllib.request.Request(
            self.base + "api?of=listing", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(json.load(answer)["objects"])

    def links(self, folder):
        """Return what /proc has in this folder of the process: its threads, or targets of its file descriptors."""
        found = Path(f"/proc/{self.process.pid}", folder).iterdir()
        return [str(it.readlink()) if it.is_symlink() else it.name for it in found]

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture(scope="module")
def file(dimuon, tmp_path_factory, testdata):
    """A file with an ntuple, histograms, and a name that would be a script."""
    path = tmp_path_factory.mktemp("view") / "viewed.root"
    shutil.copy(dimuon, path)
    with fb.update(path) as file:
        for name, h in fb.histograms(testdata / "histograms.root", filter_name=["fitted", "labels"]).items():
            file[name] = h
        file["<img src=x onerror=alert(1)>"] = np.histogram([1.0])
        file["<b>ntuple"] = {"<b>x": [1, 2, 3]}
    return path


@pytest.fixture(scope="module")
def viewed(file):
    viewed = Viewed(file)
    yield viewed
    assert viewed.end() == 0


@pytest.fixture
def attacked(file):
    """A server that must still answer, and end without an error, after the test."""
    viewed = Viewed(file)
    try:
        yield viewed
        assert viewed.answers()
        assert viewed.end() == 0
    finally:
        viewed.process.kill()
        viewed.process.communicate()


@pytest.fixture(scope="module")
def browser(need, need_program):
    sync_api = need("playwright.sync_api")
    program = need_program("chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, viewed):
    """A page with the file; it may load nothing from elsewhere, and have no error."""
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto(viewed.url)
    page.wait_for_selector("#fields tr")
    yield page
    assert [error for error in errors if "400 (Bad Request)" not in error] == []  # what the page shows in words
    assert all(url.startswith((viewed.base, "data:")) for url in asked)
    page.close()


def test_data_need_the_token_and_the_name_of_the_server(viewed):
    own = {"Authorization": f"Bearer {viewed.token}"}
    assert viewed.ask()[0] == 401
    assert viewed.ask(Authorization="Bearer 0")[0] == 401
    assert viewed.ask(f"api?of=listing&token={viewed.token}")[0] == 401
    assert viewed.ask(**own, Host="evil.example")[0] == 421
    assert viewed.ask(**own, Sec_Fetch_Site="cross-site")[0] == 403
    assert viewed.ask("../../etc/passwd", **own)[0] == 404
    status, headers, body = viewed.ask(**own)
    assert status == 200
    assert json.loads(body)["objects"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers
    assert viewed.base.startswith("http://127.0.0.1:")


def received(connection):
    """Return what is left to receive, until the server closes the connection."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


def test_there_is_only_get_and_head(viewed):
    with viewed.send("HEAD /uplot.js HTTP/1.1") as connection:
        head, _, content = received(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert content == b""
    status, headers, body = viewed.ask("uplot.js")
    assert status == 200
    assert f"content-length: {len(body)}".encode() in head.lower()
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    with viewed.send("PUT / HTTP/1.1") as connection:
        assert received(connection).startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_bodies_of_requests_are_not_read(attacked, method):
    with attacked.send(f"{method} / HTTP/1.1", ["Content-Length: 10000000000000"]) as connection:
        expected = {"POST": b"HTTP/1.1 405", "GET": b"HTTP/1.1 200"}
        assert received(connection).startswith(expected[method])


@pytest.mark.parametrize("begin", ["GET /", "GET / HTTP/1.1\r\nX: "])
def test_requests_without_an_end_are_refused(attacked, begin):
    with attacked.send(begin, end="") as connection, pytest.raises(ConnectionError):
        connection.sendall(b"a" * (64 << 20))


def test_answers_that_are_not_read_hold_up_nobody(attacked):
    request = f"\r\n\r\nGET /uplot.js HTTP/1.1\r\nHost: {attacked.host}"
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            with contextlib.suppress(ConnectionError):  # it closes the connection after the first answer
                stack.enter_context(attacked.send("GET / HTTP/1.1", end=request * 250))
        assert attacked.answers()


def test_half_open_requests_take_no_threads_and_hold_up_nobody(attacked):
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(attacked.send("GET / HTTP/1.1", end=""))
        assert attacked.answers()
        assert len(attacked.links("task")) < 50
        assert len(attacked.links("fd")) < 290


def test_connections_that_neither_send_nor_receive_are_closed(attacked):
    def sockets():
        return sum(link.startswith("socket:") for link in attacked.links("fd"))

    before = sockets()
    large = "GET /api?of=histogram&name=Events%3B1&values=nMuon&bins=1000000&low=0&high=9 HTTP/1.1"
    own = [f"Authorization: Bearer {attacked.token}"]
    with attacked.send(large, own) as deaf, attacked.send("GET / HTTP/1.1", end="") as silent:
        assert deaf.recv(12) == b"HTTP/1.1 200"
        assert received(silent) == b""
        end = time.monotonic() + 60
        while sockets() > before and time.monotonic() < end:
            time.sleep(0.1)
        assert sockets() == before
        head, _, content = received(deaf).partition(b"\r\n\r\n")
    length = next(line.partition(b":")[2] for line in head.lower().splitlines() if line.startswith(b"content-length"))
    assert len(content) < int(length)


def test_the_document_of_a_histogram_is_that_of_the_column(viewed, file):
    own = {"Authorization": f"Bearer {viewed.token}"}
    query = "api?of=histogram&name=Events%3B1&values=Muon_pt&where=nMuon%3E%3D2&bins=7&low=1&high=50"
    found = json.loads(viewed.ask(query, **own)[2])
    events = fb.open(f"{file}:Events").arrays(["nMuon", "Muon_pt"])
    pt = np.concatenate([np.asarray(it) for it in events.Muon_pt[events.nMuon >= 2]])
    inside = pt[(pt >= 1) & (pt < 50)]
    counts, edges = np.histogram(inside, bins=7, range=(1, 50))
    assert found["values"][1:-1] == counts.tolist()
    assert found["values"][0] == (pt < 1).sum()
    assert np.allclose(found["axes"][0]["edges"], edges)
    status, _, body = viewed.ask("api?of=histogram&name=Events%3B1&values=nothing", **own)
    assert status == 400
    assert "no field" in json.loads(body)["error"]["message"]


def test_the_schema_is_searched(page):
    assert page.locator("#fields tr").count() == 14
    page.fill("#find-field", "eta")
    assert page.locator("#fields tr").count() == 2
    page.fill("#find-field", "the muons' pt")
    assert page.locator("#fields button").all_inner_texts() == ["Muon_pt"]


def test_sizes_and_clusters_are_drawn(page):
    page.click("text=Sizes")
    tiles = page.locator(".tile")
    assert tiles.count() >= 5
    titles = [tile.get_attribute("title") for tile in tiles.all()]
    assert any(title.startswith("_collection0.Muon_eta") for title in titles)
    areas = [box["width"] * box["height"] for box in (tile.bounding_box() for tile in tiles.all())]
    assert max(areas) > 10_000
    page.click("text=Clusters and pages")
    assert page.locator("#cluster-rows tr").count() == 3
    page.wait_for_selector("#cluster-chart canvas")
    page.fill("#pages-of", "_collection0.Muon_pt")
    page.press("#pages-of", "Enter")
    page.locator("#cluster-rows tr td", has_text="26.7 kB").first.wait_for()


def test_a_column_is_drawn_with_a_cut(page):
    page.click("#fields button:text-is('Muon_pt')")
    page.wait_for_selector("#chart canvas")
    assert "12,000 events selected" in page.inner_text("#notes")
    page.fill("#cut", "nMuon >= 2")
    page.fill("#low", "0")
    page.fill("#high", "100")
    page.click("#drawing button")
    page.locator("#notes", has_text="22,267 entries").wait_for()
    page.check("#log")
    page.wait_for_selector("#chart canvas")
    page.fill("#cut", "nMuon >=")
    page.click("#drawing button")
    page.locator("#problem:visible", has_text="expression").wait_for()
    assert "fb view has read" in page.inner_text("#reads")


def test_stored_histograms_are_drawn_and_names_are_text(page):
    page.fill("#find-object", "labels")
    page.click("#objects button")
    page.wait_for_selector("#chart canvas")
    assert "3 entries" in page.inner_text("#notes")
    for name in ("<img src=x onerror=alert(1)>", "<b>ntuple"):
        page.fill("#find-object", name)
        page.click("#objects button")
        page.locator("#name", has_text=f"{name};1").wait_for()
    page.locator("#fields", has_text="<b>x").wait_for()
    assert page.locator("body img, body b").count() == 0


def test_tables_of_notebooks_are_searched(browser, tmp_path):
    fb.write(tmp_path / "wide.root", {f"field_{i}": np.zeros(1) for i in range(30)})
    page = browser.new_page()
    page.set_content(fb.open(tmp_path / "wide.root")._repr_html_())
    assert page.locator("tbody tr:visible").count() == 30
    page.fill("input", "FIELD_2")
    assert page.locator("tbody tr:visible").count() == 11
    page.fill("input", "")
    assert page.locator("tbody tr:visible").count() == 30
    page.close()


def test_remote_files_are_viewed(browser, need_program, dimuon):
    need_program("xrootd")
    server = servers.KINDS["xrootd"]()
    try:
        with fb.recreate(f"{server.url}/h.root") as file:
            file["Events"] = {"x": [1.0, 2.0]}
        viewed = Viewed(f"{server.url}/h.root:Events")
        page = browser.new_page()
        page.goto(viewed.url)
        page.click("#fields button:text-is('x')")
        page.locator("#notes", has_text="2 entries").wait_for()
        page.close()
        assert viewed.end() == 0
    finally:
        server.close()


def test_errors_come_before_the_page(tmp_path):
    for arguments, expected in [
        ([tmp_path / "no.root"], "no.root"),
        ([tmp_path], "not a directory"),
    ]:
        done = subprocess.run([*FB, "view", *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode in (2, 3)
        assert expected in done.stderr
        assert done.stdout == ""
    assert Path(tmp_path).is_dir()
