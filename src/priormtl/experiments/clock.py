"""Clock: how long runs into a folder have taken, killed ones too."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from priormtl._files import remove_leftovers, write_whole

__all__ = ["Clock", "Taken", "read_taken"]

FILE = "run.json"
BETWEEN_NOTES = 10.0  # seconds of a run that a kill may leave out of the count


class Taken(NamedTuple):
    """Time of all runs so far, and the most processes of one of them."""

    seconds: float = 0.0
    jobs: int = 1


def read_taken(folder: Path) -> Taken:
    """What was noted in a folder; nothing where there was no run."""
    try:
        noted = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        return Taken()
    return Taken(float(noted["seconds"]), int(noted["jobs"]))


@dataclass
class Clock:
    """Notes the time from now on, on top of what earlier runs have taken."""

    folder: Path
    jobs: int
    begin: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        remove_leftovers(self.folder)  # of a run that was killed as it took a note
        before = read_taken(self.folder)
        self._before, self._most = before.seconds, max(before.jobs, self.jobs)
        self._last = self.begin

    def note(self) -> None:
        """Write down the time so far."""
        self._last = time.monotonic()
        taken = Taken(self._before + self._last - self.begin, self._most)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / FILE, json.dumps(taken._asdict()).encode())

    def note_sometimes(self) -> None:
        """Same, unless that was done a moment ago."""
        if time.monotonic() - self._last >= BETWEEN_NOTES:
            self.note()
