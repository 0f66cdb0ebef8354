"""A package index on the loopback address, with wheels that are made by hand."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HUB_CLIENT = '''\
"""A stand-in for huggingface_hub: fetches the files of a revision from HF_ENDPOINT."""
import fnmatch, json, os, urllib.request

def snapshot_download(repo, revision, local_dir, allow_patterns):
    end = os.environ["HF_ENDPOINT"]
    told = urllib.request.urlopen(f"{end}/api/models/{repo}/revision/{revision}?blobs=true")
    for entry in json.load(told)["siblings"]:
        name = entry["rfilename"]
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in allow_patterns):
            url = f"{end}/{repo}/resolve/{revision}/{name}"
            with urllib.request.urlopen(url) as answer:
                (local_dir / name).write_bytes(answer.read())
'''


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes],
    scripts: Mapping[str, str] | None = None,
    needs: tuple[str, ...] = (),
) -> Path:
    """A pure wheel: modules by path, programs of entry points, requirements."""
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    points = "".join(f"{script} = {target}\n" for script, target in (scripts or {}).items())
    every: dict[str, str | bytes] = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **({f"{info}/entry_points.txt": f"[console_scripts]\n{points}"} if points else {}),
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, content in every.items():
            data = content.encode() if isinstance(content, str) else content
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            wheel.writestr(inside, data)
            rows.writerow([inside, f"sha256={digest}", len(data)])
        rows.writerow([f"{info}/RECORD", "", ""])
        wheel.writestr(f"{info}/RECORD", record.getvalue())
    return path


class Index:
    """The index: add wheels to it; `requests` are the paths that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[str] = []
        self.url = ""

    def add(
        self, name: str, version: str, files: Mapping[str, str | bytes], **more: object
    ) -> None:
        place = self.folder / "simple" / name.replace("_", "-")
        made = make_wheel(place, name, version, files, **more)  # type: ignore[arg-type]
        with (place / "index.html").open("a") as page:
            page.write(f'<a href="{made.name}">{made.name}</a>\n')


@contextmanager
def serve(folder: Path) -> Iterator[Index]:
    """An index that answers while the context lasts."""
    index = Index(folder)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            index.requests.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
