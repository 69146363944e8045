"""Peers in environments of their own: built on demand, run as subprocesses."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.instance import Instance
from benchmarks.timing import Seconds

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-bench"
REQUIREMENTS = Path(__file__).parent / "peers"
TOLERANCES = [10.0**-k for k in range(2, 23)]
GAPS = (1e-4, 1e-6, 1e-8)


class Run(NamedTuple):
    """Coefficients of a peer at one tolerance, or the reason why there are none."""

    instance: str
    peer: str
    variant: str
    seconds: float
    coef: np.ndarray | None
    error: str = ""
    ended: str = ""  # why no finer tolerance was tried


def run_peer(
    peer: str, instances: Sequence[Instance], repeats: int, budget: float
) -> list[Run]:
    """Sweep a peer over tolerances; whatever goes wrong becomes a line of the table."""
    try:
        python = environment(peer)
    except subprocess.CalledProcessError as error:
        reason = f"cannot be installed: {_last_line(error.stderr)}"
        return [_failed(peer, instance, reason) for instance in instances]
    with tempfile.TemporaryDirectory() as folder:
        job = _write_job(Path(folder), instances, repeats, budget)
        # A single solve cannot be interrupted from inside, and budgets are CPU time.
        limit = 90.0 + 10.0 * budget * len(instances)
        reason = _execute(
            [str(python), "-m", f"benchmarks.peers.{peer}", folder], limit
        )
        return [
            run
            for path, instance in zip(job, instances, strict=True)
            for run in _read_runs(path, peer, instance, reason)
        ]


def environment(peer: str) -> Path:
    """Interpreter of a peer; ours for those without requirements."""
    wanted = REQUIREMENTS / f"{peer}.txt"
    if not wanted.is_file():
        return Path(sys.executable)
    home = FOLDER / peer
    python, mark = home / "bin" / "python", home / "requirements.txt"
    if not mark.is_file() or mark.read_text() != wanted.read_text():
        print(f"  building the environment of {peer}", flush=True)
        _build(home, python, wanted)
        mark.write_text(wanted.read_text())
    return python


def _build(home: Path, python: Path, wanted: Path) -> None:
    _check([sys.executable, "-m", "venv", str(home)])
    install = [str(python), "-m", "pip", "install", "--quiet"]
    build = wanted.with_suffix(".build.txt")
    isolation = []
    if build.is_file():  # its set-up script needs packages that it does not name
        _check([*install, "-r", str(build)])
        isolation = ["--no-build-isolation"]
    _check([*install, *isolation, "-r", str(wanted)])


def _check(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _write_job(
    folder: Path, instances: Sequence[Instance], repeats: int, budget: float
) -> list[Path]:
    paths = [folder / f"{k}.npz" for k in range(len(instances))]
    for path, instance in zip(paths, instances, strict=True):
        instance.save(path)
    job = {
        "instances": [str(path) for path in paths],
        "tolerances": TOLERANCES,
        "gaps": GAPS,
        "repeats": repeats,
        "budget": budget,
    }
    (folder / "job.json").write_text(json.dumps(job))
    return paths


def _execute(command: list[str], limit: float) -> str:
    """Run a command; the reason why it did not end well, or nothing."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=settings,
            timeout=limit,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:.0f} s"
    return "" if done.returncode == 0 else f"crashed: {_last_line(done.stderr)}"


def _read_runs(path: Path, peer: str, instance: Instance, reason: str) -> list[Run]:
    results = path.with_suffix(".json")
    if not results.is_file():
        return [_failed(peer, instance, reason or "no result")]
    with np.load(path.with_suffix(".coef.npz"), allow_pickle=False) as coefs:
        return [
            Run(
                instance.name,
                peer,
                row["variant"],
                Seconds(row.get("seconds", [float("nan")])),
                coefs[row["coef"]] if "coef" in row else None,
                _without_places(row.get("error", "")),
                row.get("ended", ""),
            )
            for row in json.loads(results.read_text())
        ]


def _failed(peer: str, instance: Instance, reason: str) -> Run:
    return Run(instance.name, peer, "", float("nan"), None, reason)


def _last_line(text: str) -> str:
    """Last line that is not a mere warning."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("WARNING")]
    return _without_places((telling or ["no message"])[-1])


def _without_places(text: str) -> str:
    """Text without the folders and hosts of this machine."""
    return re.sub(r"(\w+:)?/[^\s'\"]+", "…", text)[:160]
