"""`holdfast lake replay`: what history holds steers no terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.app.bulk import EnqueueCounts
from holdfast.cli import cli
from holdfast.spark.lake import replay

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\x9b31m"


class Replayed:
    """A replay of jobs whose names are hostile."""

    def __init__(self, *_: object) -> None: ...

    async def run(self, *_: object, **__: object) -> Any:
        """Return what was done."""
        return replay.ReplayResult(
            chosen=2,
            before=1,
            counts=EnqueueCounts(queued=1),
            ids=[(HOSTILE, HOSTILE, HOSTILE)],
            lacking=[(HOSTILE, HOSTILE, 7)],
        )


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_control_characters_of_queues_and_ids_are_made_visible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: list[str]
) -> None:
    monkeypatch.setattr(replay, "LakeReplay", Replayed)
    url = f"sqlite:///{tmp_path}/jobs.db"
    assert CliRunner().invoke(cli, ["migrate", "--url", url]).exit_code == 0
    words = ["lake", "replay", "--url", url, "--path", str(tmp_path), "--where", "true"]
    done = CliRunner().invoke(cli, [*words, *form])
    assert done.exit_code == 0, done.output
    text = done.output
    assert not {character for character in text if not (character.isprintable() or character == "\n")}
    assert ("\\u001b]0;owned" if form else "\\x1b]0;owned\\x07\\x1b[2J\\r\\n") in text
