"""An Azure blob storage for tests: Azurite, Microsoft's own emulator, which npm installs once.

From version 3.37 on it lists blobs from a name onwards (`startFrom`), as Azure does and delta-rs asks it to, so that it
is used as Azure itself is and not by delta-rs' special way for emulators.
"""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from pyarrow import fs
from servers import free_port
from support import until

VERSION = "3.37.0"
ACCOUNT, CONTAINER = "holdfast", "lakes"
KEY = base64.b64encode(b"a-secret-of-tests").decode()
FOLDER = Path(os.environ.get("AZURITE_FOLDER") or Path(sys.prefix) / "azurite")
PROGRAM = FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def install_azurite() -> None:
    """Azurite is in its folder. Without npm the test is skipped: only this emulator needs it."""
    if PROGRAM.exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("Azurite needs npm, which is not here")
    command = [npm, "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", f"azurite@{VERSION}"]
    subprocess.run(command, check=True, capture_output=True)


class AzureStore:
    """One server with one account and one container, and all that is written to it in a folder of its own."""

    def __init__(self) -> None:
        install_azurite()
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-azure-")
        self._port = free_port()
        self.process = subprocess.Popen(
            [
                "node", PROGRAM, "--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--silent",
                "--location", self._folder.name, "--disableTelemetry", "--disableProductStyleUrl",
                "--skipApiVersionCheck",  # Arrow's own client is newer than any Azurite
            ],
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        atexit.register(self.close)
        until(self._answers, "azurite answers", patience=120)
        self.files().create_dir(CONTAINER)

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"azurite ended with {self.process.returncode}"
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self._port)) == 0

    def files(self) -> fs.AzureFileSystem:
        """Return the files of the server, seen with another library than the lake's."""
        at = f"127.0.0.1:{self._port}"
        return fs.AzureFileSystem(
            ACCOUNT, account_key=KEY, blob_storage_authority=at, dfs_storage_authority=at, blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )  # fmt: skip

    def options(self) -> dict[str, str]:
        """Return the storage options with which delta-rs reaches it."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self._port}/{ACCOUNT}", "AZURE_ALLOW_HTTP": "true",
        }  # fmt: skip

    def close(self) -> None:
        """Nothing is left."""
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()
